# SPDX-License-Identifier: Apache-2.0
"""Taylor terms and Taylor models of any network f(params, x), to any order."""

from unlazy.taylor.expansion import TaylorModel, expand, linearize, terms
from unlazy.taylor.failures import NoTaylorTermError, UnsupportedOperationError

__all__ = [
    "NoTaylorTermError",
    "TaylorModel",
    "UnsupportedOperationError",
    "expand",
    "linearize",
    "terms",
]
