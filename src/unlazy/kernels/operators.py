# SPDX-License-Identifier: Apache-2.0
"""A Gram matrix as an operator: products, solves and spectra without ever holding it whole."""

import math
import warnings
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Bool, Float, Float64, Int, PRNGKeyArray

from unlazy.core.checks import (
    MOST_TERMS,
    as_rows,
    check_count,
    check_finite,
    check_labels,
    check_name,
    check_positive,
)
from unlazy.core.checks import some_rows as _some_rows
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.float64 import float64
from unlazy.core.meshes import check_mesh, memory_per_device
from unlazy.core.summaries import name_of
from unlazy.kernels.definiteness import check_definite
from unlazy.kernels.precision import checked_kernel
from unlazy.kernels.solving import METHODS, Solution, solve_tiles
from unlazy.kernels.tiles import Kernel, Tiles
from unlazy.linalg.cholesky_factors import cholesky_in_place
from unlazy.linalg.iterative import Progress
from unlazy.linalg.lanczos import PartialEigen, top_eigen
from unlazy.linalg.trace import Estimate, trace_estimate

Rows = slice | Int[np.ndarray | Array, " r"] | Bool[np.ndarray | Array, " n"] | list
"""Which samples: a slice, their numbers (negative ones count from the end), or a mask."""

_LARGEST_ROUNDING = 0.01  # share of a solution that the rounding of float32 may move in silence
_FEWEST_PROBES = 64  # allowed whatever the memory is
_EXTRA_COLUMNS = 4  # of the Lanczos block beyond those asked for: they take up the slow tail


@entry
def operator(
    kernel: Kernel,
    x: Float[Array | np.ndarray, "n *d"],
    *,
    memory: int | float | None = None,
    mesh: Mesh | None = None,
) -> "KernelOperator":
    """The Gram matrix `kernel(x)` as an operator that is evaluated in tiles.

    Args:
        kernel: `kernel(x1, x2=None)` of shape (n1, n2), symmetric when `x2` is None, such as
            `relu_gram` or `empirical_ntk_traced`; fix its options with `functools.partial`. It is
            called with x64 on and float64 inputs. A kernel that gives float32 all the same, as
            networks with float32 parameters do, is called with the caller's x64 setting; its
            values become float64, and `solve` says how far their rounding moves the solution.
        x: samples in the rows.
        memory: bytes that matrices and tiles may take together; None for half of the machine's
            memory, or four fifths of an accelerator's. From 200 MB on, the resident memory of
            solves peaked at 0.9 to 1.27 times that on two cores, and at up to 1.42 on sixteen,
            whose threads have buffers of their own. Solves need at least some 20 MB, and 100 bytes
            for each entry of the right-hand sides. The samples, and what the kernel itself takes
            for a tile beyond six arrays of its size, come on top. With a mesh, the bytes on each
            of its devices; every device has a copy of the samples.
        mesh: a `jax.sharding.Mesh`, such as `jax.make_mesh((jax.device_count(),), ("tiles",))`,
            over whose devices tiles are spread, in products, columns of a preconditioner and
            copies in memory; `block` and factorisations stay on one device. The kernel is then
            called inside of compiled programs, so it must be one that `jax.jit` takes. The mesh may
            reach over several processes: all of them make the same calls with the same values, and
            all have the results.

    Example:
        >>> from unlazy.kernels import relu_gram
        >>> H = operator(relu_gram, np.eye(3))
        >>> print(H.matvec(np.ones(3)), H.solve(np.ones(3)).value)
        [0.5 0.5 0.5] [2. 2. 2.]
    """
    shape = np.shape(x)
    if len(shape) < 2 or 0 in shape:
        raise ValueError(
            f"`x` must have shape (n, d) with n, d >= 1, got x.shape={shape}. Rows are samples."
        )
    check_finite(x, "x")
    if memory is not None:
        check_positive(memory, "memory")
    checked = check_mesh(mesh)
    budget = memory_per_device(checked) if memory is None else int(memory)
    with float64():
        samples = jnp.asarray(x, jnp.float64)
    return KernelOperator(Tiles.over(checked_kernel(kernel, samples), samples, budget, checked))


class KernelOperator(eqx.Module):
    """A symmetric positive semi-definite Gram matrix, known by its tiles; see `operator`.

    Products, solves and spectra are in float64 whatever JAX's global setting is. While the matrix
    fits the memory given, solves factorise it; beyond, they iterate on tiles that are evaluated
    anew for each product, the two tiles that mirror each other only once.

    Example:
        >>> from unlazy.kernels import relu_gram
        >>> H = operator(relu_gram, np.eye(2))
        >>> print(H.shape, H.diagonal(), H.top_eigen(1, key=jr.key(0)).values)
        (2, 2) [0.5 0.5] [0.5]
    """

    tiles: Tiles

    def __repr__(self) -> str:
        """In one line: the size, the kernel, the samples and the memory."""
        n, samples = self.tiles.n, self.tiles.x.shape
        return (
            f"{type(self).__name__}({n} x {n}, {name_of(self.tiles.kernel)} of samples of shape "
            f"{samples}, memory {self.tiles.memory:.3g} bytes)"
        )

    __array_ufunc__ = None  # NumPy leaves `V @ H` to `__rmatmul__`

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return (self.tiles.n, self.tiles.n)

    @entry
    def matvec(self, v: Float[Array | np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
        """The product with a vector."""
        check_sides(self, v, "v")
        return self.tiles.matmat(np.asarray(v, np.float64)[:, None])[:, 0]

    @entry
    def matmat(self, V: Float[Array | np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        """The product with each column of `V`, for little more than the price of one."""
        check_sides(self, V, "V")
        return self.tiles.matmat(np.asarray(V, np.float64))

    def diagonal(self) -> Float64[np.ndarray, " n"]:
        """The diagonal."""
        return self.tiles.diagonal()

    @entry
    def block(self, rows: Rows, columns: Rows) -> Float64[Array, "r c"]:
        """The entries in some rows and columns."""
        i, j = as_rows(rows, self.tiles.n), as_rows(columns, self.tiles.n, "columns")
        with float64():
            return jnp.asarray(self.tiles.block(i, j))

    def dense(self) -> Float64[Array, "n n"]:
        """The whole matrix, if it fits the memory that the operator was given."""
        if not self.tiles.fits():
            raise ValueError(
                f"`memory` must be at least {self.tiles.least():.4g} bytes for the whole matrix, "
                f"got memory={self.tiles.memory:.3g}. Use matvec, solve or block, or give more."
            )
        with float64():
            return jnp.asarray(self.tiles.assemble())

    def __matmul__(self, V: Any) -> Float64[np.ndarray, "n *c"]:
        """The product with a vector, or with each column of a matrix."""
        return self.matvec(V) if np.ndim(V) == 1 else self.matmat(V)

    def __rmatmul__(self, V: Any) -> Float64[np.ndarray, "*c n"]:
        """The product from the left: the matrix is symmetric."""
        return (self @ np.transpose(V)).T

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The whole matrix, as `dense` gives it."""
        if copy is False:
            raise ValueError("`copy` must be left out for an operator: its matrix is computed.")
        return np.array(self.dense(), dtype)

    @entry
    def take(self, rows: Rows) -> "KernelOperator":
        """The operator of some of the samples."""
        return KernelOperator(self.tiles.take(as_rows(rows, self.tiles.n)))

    @entry
    def solve(
        self,
        y: Float[Array | np.ndarray, "n *c"],
        *,
        tolerance: float = 1e-10,
        ridge: int | float = 0.0,
        method: str = "auto",
        progress: Progress | None = None,
    ) -> Solution:
        r"""Solve $(H + \text{ridge} I)\, \alpha = y$ for all columns of `y` at once.

        Args:
            y: right-hand sides.
            tolerance: relative residual to reach in every column.
            ridge: added to the diagonal, as it is.
            method: "cholesky" factorises in float64, in place; "float32" factorises in half the
                memory and refines on float64 tiles; "conjugate-gradients" holds only a low-rank
                preconditioner. "auto" is the first of these that fits the memory, and the last
                one for an `empirical_operator`.
            progress: called as `progress(done, expected)`, with tiles evaluated while a
                factorisation is prepared, then with iterations.

        Raises:
            ValueError: the matrix has an eigenvalue well below zero: the kernel is none.

        Warns:
            UnlazyWarning: the tolerance was not reached; rows that are parallel are named. Or the
                kernel is float32 and so nearly singular that its rounding moves the solution by
                more than a hundredth.

        Example:
            >>> from unlazy.kernels import relu_gram
            >>> solution = operator(relu_gram, np.eye(2)).solve(np.ones(2))
            >>> solution.method, solution.converged
            ('cholesky', True)
        """
        check_sides(self, y)
        check_positive(tolerance, "tolerance")
        check_name(method, ("auto", *METHODS), "method")
        if not (ridge >= 0 and math.isfinite(ridge)):
            raise ValueError(f"`ridge` must be >= 0 and finite, got ridge={ridge}.")
        solution = solve_tiles(
            self.tiles, y, tolerance=tolerance, ridge=float(ridge), method=method, progress=progress
        )
        if not solution.converged:
            self._warn(solution, tolerance)
        elif solution.rounding > _LARGEST_ROUNDING:
            warnings.warn(
                f"The kernel is nearly singular: the rounding of its float32 entries moves the "
                f"solution by a share of about {solution.rounding:.2g}. {self._float32_hint()}",
                UnlazyWarning,
                stacklevel=2,
            )
        return solution

    @entry
    def top_eigen(self, k: int, *, tolerance: float = 1e-9, key: PRNGKeyArray) -> PartialEigen:
        """The `k` largest eigenvalues with their vectors and error bounds, by block Lanczos.

        `tolerance` is the residual to reach, relative to the largest eigenvalue; a warning tells
        where one is still above it. `key` is for the random starting block.
        """
        n = self.tiles.n
        check_count(k, "k")
        if k > n:
            raise ValueError(f"`k` must be at most n={n}, got k={k}.")
        with float64():
            start = np.asarray(jr.normal(key, (n, min(n, k + _EXTRA_COLUMNS)), jnp.float64))
        tolerance = self.tiles.attainable(tolerance)
        eigen = top_eigen(self.tiles.products(), start, k, tolerance=tolerance)
        if not eigen.converged:
            warnings.warn(
                f"The {k} largest eigenvalues are known to {np.max(eigen.errors):.2g} only, after "
                f"{eigen.iterations} products. Ask for fewer, or for a larger tolerance.",
                UnlazyWarning,
                stacklevel=user_level(),
            )
        return eigen

    @entry
    def trace(
        self,
        function: Callable[[np.ndarray], np.ndarray] | None = None,
        *,
        probes: int = 16,
        key: PRNGKeyArray,
    ) -> Estimate:
        r"""The trace of the matrix, or an estimate of $\operatorname{tr} f(H)$ for a function.

        Args:
            function: of the eigenvalues, elementwise, such as `np.reciprocal` for the mean energy
                of random labels. None for the trace itself, which is exact. Eigenvalues that are
                zero up to rounding are zero for it; the trace of the inverse of a singular matrix
                is infinite.
            probes: random sign vectors to average over, at most as many as fit a quarter of the
                memory.
            key: of the probes.

        """
        if function is None:
            return Estimate(float(np.sum(self.diagonal())), 0.0)
        # Each is a column as long as the matrix, of which the basis and its products hold copies.
        most = max(_FEWEST_PROBES, min(MOST_TERMS, self.tiles.memory // (4 * 8 * self.tiles.n)))
        check_count(probes, "probes", least=2, most=most)
        with float64():
            signs = np.asarray(jr.rademacher(key, (self.tiles.n, probes), jnp.int32), np.float64)
        return trace_estimate(function, self.tiles.products(), signs, eps=self.tiles.eps)

    @entry
    def logdet(self, *, probes: int = 16, key: PRNGKeyArray) -> Estimate:
        """The logarithm of the determinant: exact while the matrix fits the memory.

        Beyond, an estimate as in `trace`. Minus infinity for a matrix singular to rounding.
        """
        if not self.tiles.fits():
            return self.trace(np.log, probes=probes, key=key)
        factor = cholesky_in_place(self.tiles.assemble())
        if factor is None:
            check_definite(self.tiles)
            return Estimate(-math.inf, 0.0)
        pivots, n = factor.pivots(), self.tiles.n
        least = max(n * float(np.finfo(np.float64).eps), self.tiles.noise)
        if np.any(pivots <= least * self.diagonal()):  # rounding: its logarithm says nothing
            return Estimate(-math.inf, 0.0)
        return Estimate(float(np.sum(np.log(pivots))), 0.0)

    def _warn(self, solution: Solution, tolerance: float) -> None:
        first = self.tiles.first_parallel()
        copies = np.flatnonzero(first != np.arange(self.tiles.n))
        why = (
            f" The kernel is singular: {_some_rows(copies)} are parallel to earlier rows."
            if copies.size
            else ""
        )
        if self.tiles.eps:
            why += f" The kernel is known in float32 only. {self._float32_hint()}"
        warnings.warn(
            f"The solve has not converged: its relative residual is {solution.residual:.2g}, not "
            f"{tolerance:.2g}, after {solution.iterations} iterations.{why} Give more memory, a "
            "ridge, or a larger tolerance.",
            UnlazyWarning,
            stacklevel=user_level(),
        )

    def _float32_hint(self) -> str:
        ridge = 100 * self.tiles.noise * float(np.mean(self.diagonal()))
        return f"Give a ridge of about {ridge:.1g}, or float64 parameters."


def check_sides(H: KernelOperator, y: Float[Array | np.ndarray, "n *c"], name: str = "y") -> None:
    """Raise unless `y` has a row per row of `H`; say how columns of outputs become rows."""
    n, outputs = H.tiles.n, H.tiles.per_sample
    if outputs > 1 and np.shape(y) == (n // outputs, outputs):
        raise ValueError(
            f"`{name}` must have shape ({n},) or ({n}, c), since the {outputs} outputs of a sample "
            f"are rows of the operator side by side, got {name}.shape={np.shape(y)}. Pass "
            f"{name}.reshape(-1), or use traced=True for one row per sample."
        )
    check_labels(y, n, name)
