# SPDX-License-Identifier: Apache-2.0
"""Float64 factorisations of symmetric matrices, whatever JAX's global precision is."""

from unlazy.linalg.cholesky import CholeskyFactor, cholesky
from unlazy.linalg.eigen import Eigen, eigh

__all__ = ["CholeskyFactor", "Eigen", "cholesky", "eigh"]
