# SPDX-License-Identifier: Apache-2.0
"""Models of every library as the subjects of a report, behind one protocol."""
