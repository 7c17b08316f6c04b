# SPDX-License-Identifier: Apache-2.0
"""Training loops, compiled in chunks, with a history of what was recorded on the way."""

from unlazy.train.descent import fit
from unlazy.train.gram import gram_descent
from unlazy.train.history import History
from unlazy.train.losses import SquaredError
from unlazy.train.stopping import LossBelow, RelativeLossBelow

__all__ = [
    "History",
    "LossBelow",
    "RelativeLossBelow",
    "SquaredError",
    "fit",
    "gram_descent",
]
