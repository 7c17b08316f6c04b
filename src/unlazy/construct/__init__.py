# SPDX-License-Identifier: Apache-2.0
"""Weights built by hand, as the existence proofs build them."""

from unlazy.construct.indicator import IndicatorFunction, indicator_function
from unlazy.construct.indicator_quadrature import IndicatorError, indicator_error
from unlazy.construct.information import (
    RandomInformation,
    ThreeLayerStart,
    random_information,
)
from unlazy.construct.intervals import IntervalPartition, interval_partition
from unlazy.construct.minimum_norm import MinimumNorm, minimum_norm
from unlazy.construct.quadratic_fit import QuadraticFit
from unlazy.construct.ridge_powers import ridge_power, ridge_sum, two_xor
from unlazy.construct.ridge_readout import RidgeReadout, relu_readout
from unlazy.construct.three_layer_existence import ThreeLayerWeights, three_layer_weights
from unlazy.construct.two_layer_existence import TwoLayerWeights, two_layer_weights

__all__ = [
    "IndicatorError",
    "IndicatorFunction",
    "IntervalPartition",
    "MinimumNorm",
    "QuadraticFit",
    "RandomInformation",
    "RidgeReadout",
    "ThreeLayerStart",
    "ThreeLayerWeights",
    "TwoLayerWeights",
    "indicator_error",
    "indicator_function",
    "interval_partition",
    "minimum_norm",
    "random_information",
    "relu_readout",
    "ridge_power",
    "ridge_sum",
    "three_layer_weights",
    "two_layer_weights",
    "two_xor",
]
