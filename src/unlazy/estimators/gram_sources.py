# SPDX-License-Identifier: Apache-2.0
"""Where an estimator takes its Gram matrix from: a kernel of samples, or the user."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float64, Int

from unlazy.core.checks import check_count, check_name
from unlazy.core.float64 import float64
from unlazy.kernels import KernelOperator, ntk, operator

KERNELS = ("ntk", "nngp", "precomputed")
LARGEST_DENSE = 4096
"""Rows up to which NumPy factorises; beyond, an operator solves within its budget of memory."""


@dataclass(frozen=True)
class OfKernel:
    """The Gram matrix that a kernel makes of samples."""

    kernel: Callable[..., Any]
    x: Float64[np.ndarray, "n d"]
    memory: int | float | None = None

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.x)

    def dense(self, rows: Int[np.ndarray, " r"] | None = None) -> Float64[np.ndarray, "r r"]:
        """The kernel of all samples, or of some."""
        return as_matrix(self.kernel, self.x if rows is None else self.x[rows])

    def weighted(self, roots: Float64[np.ndarray, " n"], solver: str) -> KernelOperator | None:
        """An operator for many samples, and where a solver is asked for."""
        if self.n <= LARGEST_DENSE and solver == "auto":
            return None
        if np.all(roots == 1):
            return operator(self.kernel, self.x, memory=self.memory)
        # The root of a sample's weight travels as its last coordinate.
        kernel = functools.partial(_weighted, self.kernel)
        return operator(kernel, np.column_stack([self.x, roots]), memory=self.memory)


@dataclass(frozen=True)
class OfMatrix:
    """A Gram matrix that the user computed."""

    matrix: Float64[np.ndarray, "n n"]

    @property
    def n(self) -> int:
        """The number of samples."""
        return len(self.matrix)

    def dense(self, rows: Int[np.ndarray, " r"] | None = None) -> Float64[np.ndarray, "r r"]:
        """The matrix, or some of its rows and columns."""
        return self.matrix if rows is None else self.matrix[np.ix_(rows, rows)]

    def weighted(self, roots: Float64[np.ndarray, " n"], solver: str) -> KernelOperator | None:
        """None: the matrix is there."""
        del roots
        if solver not in ("auto", "cholesky"):
            raise ValueError(
                "`solver` must be 'auto' or 'cholesky' for a precomputed kernel, got "
                f"solver={solver!r}."
            )
        return None


GramSource = OfKernel | OfMatrix


def kernel_of(settings: Any) -> Callable[..., Any]:
    """The kernel of an estimator with arguments `kernel`, `depth`, `activation` and the like."""
    if callable(settings.kernel):
        return settings.kernel
    check_name(settings.kernel, KERNELS, "kernel")
    check_count(settings.depth, "depth")
    return functools.partial(
        ntk,
        depth=settings.depth,
        activation=settings.activation,
        weight_variance=settings.weight_variance,
        bias_variance=settings.bias_variance,
        trained="last" if settings.kernel == "nngp" else "all",
        fixed_layers=settings.fixed_layers,
    )


def as_matrix(kernel: Callable[..., Any], *x: np.ndarray) -> Float64[np.ndarray, "n1 n2"]:
    """The kernel between samples as a NumPy matrix."""
    with float64():
        K = np.asarray(kernel(*x), np.float64)
    expected = len(x[0]), len(x[-1])
    if K.shape != expected:
        raise ValueError(f"`kernel` must give a matrix of shape {expected}, got {K.shape}.")
    return K


def _weighted(kernel: Callable[..., Any], x1: Any, x2: Any = None) -> Any:
    other = x1 if x2 is None else x2
    K = kernel(x1[:, :-1]) if x2 is None else kernel(x1[:, :-1], x2[:, :-1])
    return K * x1[:, -1:] * other[None, :, -1]
