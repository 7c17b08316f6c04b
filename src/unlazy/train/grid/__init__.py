# SPDX-License-Identifier: Apache-2.0
"""A whole grid of training runs as lanes of one compiled program; start reading at `grid.py`."""
