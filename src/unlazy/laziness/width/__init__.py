# SPDX-License-Identifier: Apache-2.0
"""The coordinate check: how far features move as a network gets wider."""
