# SPDX-License-Identifier: Apache-2.0
"""Concept classes: functions that learners provably learn, to sample, evaluate and measure."""

from unlazy.data.concepts.biased import BiasedConcept
from unlazy.data.concepts.parities import parities_concept
from unlazy.data.concepts.products import product_concept
from unlazy.data.concepts.residual import ResidualComplexity, ResidualConcept, parity_concept
from unlazy.data.concepts.three_layer import ThreeLayerComplexity, ThreeLayerConcept
from unlazy.data.concepts.two_layer import TwoLayerConcept

__all__ = [
    "BiasedConcept",
    "ResidualComplexity",
    "ResidualConcept",
    "ThreeLayerComplexity",
    "ThreeLayerConcept",
    "TwoLayerConcept",
    "parities_concept",
    "parity_concept",
    "product_concept",
]
