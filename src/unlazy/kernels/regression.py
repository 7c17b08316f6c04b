# SPDX-License-Identifier: Apache-2.0
"""Regression with a kernel: what a network trained to the end under that kernel would predict."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_finite
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.core.sheltering import sheltered
from unlazy.core.summaries import name_of
from unlazy.kernels.operators import operator
from unlazy.kernels.parts import even_parts, of_one_size
from unlazy.kernels.solving import Solution
from unlazy.kernels.tiles import Kernel

# Samples predicted at a time, and those of the fit that each block compares them with. On an
# accelerator small blocks leave most of it idle.
_BLOCK = {"cpu": (1024, 4096)}
_BLOCK_ELSEWHERE = 8192, 8192


class KernelRegression(eqx.Module):
    r"""Kernel ridge regression, or interpolation when the ridge is zero.

    $$f(x) = k(x, X)\, (k(X, X) + \text{ridge}\, I)^{-1} y$$

    With ridge zero this is the limit of gradient descent on a network of infinite width. The ridge
    is absolute: it is not multiplied by the number of samples.

    Source: AR-12, arXiv:1901.08584 section 5, in the limit of many steps.

    Args:
        kernel: `kernel(x1, x2=None)` of shape (n1, n2), as for `operator`. The tangent kernel of a
            network is `functools.partial(empirical_ntk_traced, f, params)`, in float32 or float64.
        ridge: added to the diagonal.
        memory: bytes for the solve, as for `operator`.

    Example:
        >>> from unlazy.kernels import relu_gram
        >>> fitted = KernelRegression(relu_gram).fit(np.eye(2), np.array([1.0, -1.0]))
        >>> print(fitted.predict(np.eye(2)))
        [ 1. -1.]
    """

    kernel: Kernel
    ridge: int | float = 0.0
    memory: int | float | None = None

    @entry
    def __check_init__(self):
        if not callable(self.kernel):
            matrix = f" of shape {np.shape(self.kernel)}" if np.ndim(self.kernel) else ""
            raise TypeError(
                "`kernel` must be a function kernel(x1, x2=None), such as kernels.relu_gram, got "
                f"a {type(self.kernel).__name__}{matrix}. For a Gram matrix use kernels.ridge_path."
            )
        if not (self.ridge >= 0 and math.isfinite(self.ridge)):
            raise ValueError(f"`ridge` must be >= 0 and finite, got ridge={self.ridge}.")

    @entry
    def fit(
        self,
        x: Float[Array | np.ndarray, "n *d"],
        y: Float[Array | np.ndarray, "n *c"],
        *,
        tolerance: float = 1e-10,
    ) -> "FittedKernelRegression":
        """Solve for the coefficients; the columns of `y` are outputs.

        Raises and warns as `KernelOperator.solve` does.
        """
        H = operator(self.kernel, x, memory=self.memory)
        solution = H.solve(y, ridge=self.ridge, tolerance=tolerance)
        return FittedKernelRegression(H.tiles.kernel, H.tiles.x, solution)


class FittedKernelRegression(eqx.Module):
    """A fitted `KernelRegression`: the samples, and the solution with its residual."""

    kernel: Kernel
    x: Float64[Array, "n *d"]
    solution: Solution

    def __repr__(self) -> str:
        """In one line: the kernel, the samples, and how far the solve came."""
        found = self.solution
        done = "converged" if found.converged else "not converged"
        return (
            f"{type(self).__name__}({name_of(self.kernel)} of samples of shape {self.x.shape}, "
            f"labels of shape {found.value.shape}, {done} by {found.method}, residual "
            f"{found.residual:.2g})"
        )

    @entry
    def predict(self, x: Float[Array | np.ndarray, "t *d"]) -> Float64[np.ndarray, "t *c"]:
        """Predictions at other samples, evaluated in blocks of rows and of columns."""
        coefficients, shape = self.solution.value, np.shape(x)
        if len(shape) != self.x.ndim or shape[1:] != self.x.shape[1:] or shape[0] == 0:
            raise ValueError(
                f"`x` must hold samples of shape {self.x.shape[1:]} along its first axis, as in "
                f"the fit, got x.shape={shape}."
            )
        check_finite(x, "x")
        return kernel_products(self._of_arrays, x, self.x, coefficients)

    def _of_arrays(self, x1: Any, x2: Any) -> Any:
        """The kernel, which may be a user's that takes JAX arrays alone."""
        return sheltered(self.kernel)(jnp.asarray(x1), jnp.asarray(x2))


def kernel_products(
    kernel: Callable[..., Any],
    points: Float[Array | np.ndarray, "t *d"],
    x: Float64[Array | np.ndarray, "n *d"],
    coefficients: Float64[np.ndarray, "n *c"],
) -> Float64[np.ndarray, "t *c"]:
    """The product k(points, x) coefficients, in blocks of one shape, so that one program serves."""
    # On the host NumPy cuts and multiplies, for which nothing is compiled.
    xp = np if jax.default_backend() == "cpu" else jnp
    most = _BLOCK.get(jax.default_backend(), _BLOCK_ELSEWHERE)
    spans, parts = (
        even_parts(len(v), math.ceil(len(v) / size))
        for v, size in zip((points, x), most, strict=True)
    )
    with float64(), jax.default_matmul_precision("highest"):
        new, old, alpha = (xp.asarray(v, xp.float64) for v in (points, x, coefficients))
        total = np.zeros((len(new), *alpha.shape[1:]))
        for i in (blocks := of_one_size(spans)).starts:
            rows = slice(i, i + blocks.size)
            products = (
                xp.asarray(kernel(new[rows], old[columns])) @ part
                for columns, part in _columns(alpha, parts, xp)
            )
            total[rows] = sum(np.asarray(product) for product in products)
    return total


def _columns(alpha: Any, parts: list[tuple[int, int]], xp: Any) -> Iterator[tuple[slice, Any]]:
    """The columns of each block, and their coefficients: 0 where it reaches into another part."""
    blocks = of_one_size(parts)
    for start, (first, stop) in zip(blocks.starts, parts, strict=True):
        columns = slice(start, start + blocks.size)
        place = np.arange(start, start + blocks.size).reshape(-1, *[1] * (alpha.ndim - 1))
        yield columns, xp.where((first <= place) & (place < stop), alpha[columns], 0.0)
