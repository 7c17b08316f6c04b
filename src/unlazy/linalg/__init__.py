# SPDX-License-Identifier: Apache-2.0
"""Float64 factorisations of symmetric matrices, whatever JAX's global precision is."""

from unlazy.linalg.cholesky import CholeskyFactor, cholesky
from unlazy.linalg.eigen import Eigen, eigh, gram_eigenvalues
from unlazy.linalg.extremes import ExtremeEigen, Matvec, extreme_eigen
from unlazy.linalg.in_place import DeviceCholesky, HostCholesky, cholesky_in_place
from unlazy.linalg.iterative import (
    IterativeSolution,
    Matmat,
    Progress,
    conjugate_gradients,
)
from unlazy.linalg.lanczos import PartialEigen, Quadrature, krylov_quadrature, top_eigen
from unlazy.linalg.low_rank import LowRankPreconditioner, pivoted_cholesky
from unlazy.linalg.refinement import Float32Factor, float32_factor, refined_solve
from unlazy.linalg.spans import ColumnSpace, column_space
from unlazy.linalg.trace import Estimate, trace_estimate

__all__ = [
    "CholeskyFactor",
    "ColumnSpace",
    "DeviceCholesky",
    "Eigen",
    "Estimate",
    "ExtremeEigen",
    "Float32Factor",
    "HostCholesky",
    "IterativeSolution",
    "LowRankPreconditioner",
    "Matmat",
    "Matvec",
    "PartialEigen",
    "Progress",
    "Quadrature",
    "cholesky",
    "cholesky_in_place",
    "column_space",
    "conjugate_gradients",
    "eigh",
    "extreme_eigen",
    "float32_factor",
    "gram_eigenvalues",
    "krylov_quadrature",
    "pivoted_cholesky",
    "refined_solve",
    "top_eigen",
    "trace_estimate",
]
