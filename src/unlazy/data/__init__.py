# SPDX-License-Identifier: Apache-2.0
"""Inputs and labels: spheres, cubes, image sets, and labels that are random or corrupted."""

from unlazy.data.composed_products import ComposedProduct
from unlazy.data.concepts import ThreeLayerComplexity, ThreeLayerConcept, TwoLayerConcept
from unlazy.data.fingerprint import fingerprint
from unlazy.data.inputs import cube, sphere
from unlazy.data.labels import corrupt_labels, random_labels
from unlazy.data.loading import load
from unlazy.data.sources import available, where
from unlazy.data.targets import Target, target
from unlazy.data.task import Task

__all__ = [
    "ComposedProduct",
    "Target",
    "Task",
    "ThreeLayerComplexity",
    "ThreeLayerConcept",
    "TwoLayerConcept",
    "available",
    "corrupt_labels",
    "cube",
    "fingerprint",
    "load",
    "random_labels",
    "sphere",
    "target",
    "where",
]
