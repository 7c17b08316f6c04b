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
from unlazy.kernels.relu3 import relu3_quadratic, relu3_tangent
from unlazy.kernels.resnet import resnet_ntk
from unlazy.kernels.ridge import RidgePath, ridge_path
from unlazy.kernels.solving import Solution
from unlazy.kernels.taylor_features import taylor_kernel
from unlazy.kernels.tiles import Kernel

__all__ = [
    "FittedKernelRegression",
    "Kernel",
    "KernelOperator",
    "KernelRegression",
    "RidgePath",
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
    "relu3_quadratic",
    "relu3_tangent",
    "relu_gram",
    "resnet_ntk",
    "ridge_path",
    "tangent",
    "taylor_kernel",
]
