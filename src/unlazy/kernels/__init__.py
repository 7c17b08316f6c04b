# SPDX-License-Identifier: Apache-2.0
"""Kernels of neural networks, as matrices and as operators."""

from unlazy.kernels.angular import arcsin, conjugate, gaussian, tangent
from unlazy.kernels.empirical import (
    empirical_ntk,
    empirical_ntk_diagonal,
    empirical_ntk_traced,
)
from unlazy.kernels.mlp import nngp, ntk
from unlazy.kernels.relu import relu_gram
from unlazy.kernels.resnet import resnet_ntk

__all__ = [
    "arcsin",
    "conjugate",
    "empirical_ntk",
    "empirical_ntk_diagonal",
    "empirical_ntk_traced",
    "gaussian",
    "nngp",
    "ntk",
    "relu_gram",
    "resnet_ntk",
    "tangent",
]
