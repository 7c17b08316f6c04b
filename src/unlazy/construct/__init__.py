# SPDX-License-Identifier: Apache-2.0
"""Weights built by hand, as the existence proofs build them."""

from unlazy.construct.minimum_norm import MinimumNorm, minimum_norm
from unlazy.construct.quadratic_fit import QuadraticFit
from unlazy.construct.ridge_powers import ridge_power, ridge_sum, two_xor
from unlazy.construct.ridge_readout import RidgeReadout, relu_readout

__all__ = [
    "MinimumNorm",
    "QuadraticFit",
    "RidgeReadout",
    "minimum_norm",
    "relu_readout",
    "ridge_power",
    "ridge_sum",
    "two_xor",
]
