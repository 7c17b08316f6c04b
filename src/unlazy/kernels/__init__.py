# SPDX-License-Identifier: Apache-2.0
"""Kernels of neural networks, as matrices and as operators."""

from unlazy.kernels.angular import arcsin, conjugate, gaussian, tangent
from unlazy.kernels.empirical import (
    empirical_ntk,
    empirical_ntk_diagonal,
    empirical_ntk_traced,
)
from unlazy.kernels.mlp import nngp, ntk
from unlazy.kernels.operators import KernelOperator, operator
from unlazy.kernels.regression import FittedKernelRegression, KernelRegression
from unlazy.kernels.relu import relu_gram
from unlazy.kernels.resnet import resnet_ntk
from unlazy.kernels.solving import Solution
from unlazy.kernels.tiles import Kernel

__all__ = [
    "FittedKernelRegression",
    "Kernel",
    "KernelOperator",
    "KernelRegression",
    "Solution",
    "arcsin",
    "conjugate",
    "empirical_ntk",
    "empirical_ntk_diagonal",
    "empirical_ntk_traced",
    "gaussian",
    "nngp",
    "ntk",
    "operator",
    "relu_gram",
    "resnet_ntk",
    "tangent",
]
