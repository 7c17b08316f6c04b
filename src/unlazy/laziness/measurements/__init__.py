# SPDX-License-Identifier: Apache-2.0
"""What a report measures: each file from arrays to a result that people can read."""
