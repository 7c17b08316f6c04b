# SPDX-License-Identifier: Apache-2.0
"""Weights built by hand, as the existence proofs build them."""

from unlazy.construct.good_movements import GoodSolution, good_solution
from unlazy.construct.indicator import IndicatorFunction, indicator_function
from unlazy.construct.indicator_quadrature import IndicatorError, indicator_error
from unlazy.construct.information import (
    RandomInformation,
    ThreeLayerStart,
    random_information,
)
from unlazy.construct.intervals import IntervalPartition, interval_partition
from unlazy.construct.linear_movements import LinearFit, affine_part, low_part
from unlazy.construct.minimum_norm import MinimumNorm, minimum_norm
from unlazy.construct.parity_networks import (
    ParityNetwork,
    pad_inputs,
    parity_network,
    repeat_neurons,
)
from unlazy.construct.quadratic_fit import QuadraticFit
from unlazy.construct.quadratic_movements import sparse_part
from unlazy.construct.resnet_existence import ResNetWeights, resnet_weights
from unlazy.construct.ridge_powers import ridge_power, ridge_sum, two_xor
from unlazy.construct.ridge_readout import RidgeReadout, relu_readout
from unlazy.construct.three_layer_existence import ThreeLayerWeights, three_layer_weights
from unlazy.construct.two_layer_existence import TwoLayerWeights, two_layer_weights

__all__ = [
    "GoodSolution",
    "IndicatorError",
    "IndicatorFunction",
    "IntervalPartition",
    "LinearFit",
    "MinimumNorm",
    "ParityNetwork",
    "QuadraticFit",
    "RandomInformation",
    "ResNetWeights",
    "RidgeReadout",
    "ThreeLayerStart",
    "ThreeLayerWeights",
    "TwoLayerWeights",
    "affine_part",
    "good_solution",
    "indicator_error",
    "indicator_function",
    "interval_partition",
    "low_part",
    "minimum_norm",
    "pad_inputs",
    "parity_network",
    "random_information",
    "relu_readout",
    "repeat_neurons",
    "resnet_weights",
    "ridge_power",
    "ridge_sum",
    "sparse_part",
    "three_layer_weights",
    "two_layer_weights",
    "two_xor",
]
