# SPDX-License-Identifier: Apache-2.0
"""Inputs and labels: spheres, cubes, image sets, and labels that are random or corrupted."""

from unlazy.data.composed_products import ComposedProduct
from unlazy.data.concepts import (
    BiasedConcept,
    ResidualComplexity,
    ResidualConcept,
    ThreeLayerComplexity,
    ThreeLayerConcept,
    TwoLayerConcept,
    parities_concept,
    parity_concept,
    product_concept,
)
from unlazy.data.fingerprint import fingerprint
from unlazy.data.inputs import corners, cube, sphere
from unlazy.data.labels import corrupt_labels, random_labels
from unlazy.data.loading import load
from unlazy.data.low_plus_sparse import LowPlusSparse
from unlazy.data.parities import ComposedParities
from unlazy.data.sources import available, where
from unlazy.data.targets import Target, target
from unlazy.data.task import Task

__all__ = [
    "BiasedConcept",
    "ComposedParities",
    "ComposedProduct",
    "LowPlusSparse",
    "ResidualComplexity",
    "ResidualConcept",
    "Target",
    "Task",
    "ThreeLayerComplexity",
    "ThreeLayerConcept",
    "TwoLayerConcept",
    "available",
    "corners",
    "corrupt_labels",
    "cube",
    "fingerprint",
    "load",
    "parities_concept",
    "parity_concept",
    "product_concept",
    "random_labels",
    "sphere",
    "target",
    "where",
]
