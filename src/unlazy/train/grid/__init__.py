# SPDX-License-Identifier: Apache-2.0
"""A whole grid of training runs as lanes of one compiled program."""

from unlazy.train.grid.entry import fit_grid
from unlazy.train.grid.order import batch_order
from unlazy.train.grid.progress import TimeLeft
from unlazy.train.grid.result import BestLane, GridResult

__all__ = ["BestLane", "GridResult", "TimeLeft", "batch_order", "fit_grid"]
