# SPDX-License-Identifier: Apache-2.0
"""The learners of the papers: functions `f(params, x)` with an `init`."""

from unlazy.nets.biased_two_layer import BiasedTwoLayer, BiasedTwoLayerParams
from unlazy.nets.coupling import SignedCoupling, flip_first_layer, signed_coupling
from unlazy.nets.partition import combine, partition
from unlazy.nets.pseudo import PseudoTerms, pseudo_output, pseudo_terms
from unlazy.nets.resnet3 import ResNet3, ResNet3LastLayer, ResNet3Params
from unlazy.nets.resnet_gradients import (
    ResNet3Gradient,
    ResNet3Patterns,
    resnet3_gradient,
    resnet3_patterns,
)
from unlazy.nets.sign_patterns import SignPattern, flipped_fractions, sign_changes, sign_pattern
from unlazy.nets.smoothing import smoothed_relu
from unlazy.nets.three_layer import ThreeLayer, ThreeLayerParams
from unlazy.nets.two_layer import TwoLayer, TwoLayerParams
from unlazy.nets.worst_flips import WorstFlip, worst_case_flip_output, worst_case_flips

__all__ = [
    "BiasedTwoLayer",
    "BiasedTwoLayerParams",
    "PseudoTerms",
    "ResNet3",
    "ResNet3Gradient",
    "ResNet3LastLayer",
    "ResNet3Params",
    "ResNet3Patterns",
    "SignPattern",
    "SignedCoupling",
    "ThreeLayer",
    "ThreeLayerParams",
    "TwoLayer",
    "TwoLayerParams",
    "WorstFlip",
    "combine",
    "flip_first_layer",
    "flipped_fractions",
    "partition",
    "pseudo_output",
    "pseudo_terms",
    "resnet3_gradient",
    "resnet3_patterns",
    "sign_changes",
    "sign_pattern",
    "signed_coupling",
    "smoothed_relu",
    "worst_case_flip_output",
    "worst_case_flips",
]
