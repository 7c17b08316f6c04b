# SPDX-License-Identifier: Apache-2.0
"""Linear systems with a Gram matrix, by the fastest method that fits the memory."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.float64 import float64
from unlazy.kernels.definiteness import check_definite, check_diagonal
from unlazy.kernels.tiles import Tiles
from unlazy.linalg.cholesky_factors import HostCholesky, cholesky_in_place
from unlazy.linalg.iterative import IterativeSolution, Matmat, Progress, conjugate_gradients
from unlazy.linalg.low_rank import LowRankPreconditioner, pivoted_cholesky
from unlazy.linalg.refinement import float32_factor

_LARGEST_RANK = 2000  # of the preconditioner: building it costs less than one product with tiles
_LARGEST_RANK_BY_PRODUCTS = 256  # where columns cost as much as products do: two blocks of them
_LARGEST_BLOCK, _SMALLEST_BLOCK = 128, 4  # of its columns at a time
_FACTORED_ITERATIONS = 100  # with a factorisation as preconditioner; two or three are usual
_ITERATIONS = 2000
_LARGEST_LIMIT = 1e-6  # residual above which rounding is no excuse: the system is inconsistent
_LARGEST_LIMIT_FLOAT32 = 1e-3  # the same where products are in float32


class Solution(eqx.Module):
    r"""The solution of $(H + \text{ridge} I)\, \alpha = y$, and how far it can be trusted."""

    value: Float64[np.ndarray, "n *c"]
    energy: float  # y . value, summed over columns, corrected to second order in the residual
    residual: float  # true relative residual in float64, of the worst column
    iterations: int  # products with the matrix; 1 when a factorisation was enough
    method: str  # "cholesky", "float32" or "conjugate-gradients"
    converged: bool  # whether the residual reached the tolerance, or what float64 can reach
    singular: bool  # whether a factorisation found the matrix singular to rounding
    rounding: float  # share by which float32 entries of H move it (in H's norm); 0 for float64


class _System(NamedTuple):
    tiles: Tiles
    y: Float64[np.ndarray, "n c"]
    ridge: float
    tolerance: float
    progress: Progress | None


class _Attempt(NamedTuple):
    solution: IterativeSolution | None  # None: the factorisation failed
    singular: bool
    again: Callable[..., IterativeSolution] | None = None  # solves for other right-hand sides


def solve_tiles(
    tiles: Tiles,
    y: Float[Array | np.ndarray, "n *c"],
    *,
    tolerance: float,
    ridge: float = 0.0,
    method: str = "auto",
    progress: Progress | None = None,
) -> Solution:
    """Solve by `method`, falling back on conjugate gradients where a factorisation fails.

    The caller reports a solution that has not converged.

    Raises:
        ValueError: the solve has failed, and the matrix is not positive semi-definite.
    """
    columns = np.asarray(y, np.float64).reshape(tiles.n, -1)
    system = _System(tiles, columns, ridge, tiles.attainable(tolerance), progress)
    chosen = _fitting_method(tiles) if method == "auto" else method
    _check_memory(tiles, chosen)
    attempt = METHODS[chosen](system)
    if attempt.solution is None:
        check_definite(tiles, ridge)
        chosen = "conjugate-gradients"
        attempt = METHODS[chosen](system)._replace(singular=attempt.singular)
    solution = attempt.solution
    assert solution is not None  # conjugate gradients always return something
    # M = a.y + a.r - e.He with e the error: what is left out is of second order.
    energy = float(np.sum(solution.value * (columns + solution.remainder)))
    if not solution.converged or energy < 0:
        check_definite(tiles, ridge)  # else a failure would be laid to rows that are alike
    return Solution(
        value=solution.value.reshape(np.shape(y)),
        energy=energy,
        residual=solution.residual,
        iterations=solution.iterations,
        method=chosen,
        converged=solution.converged or _at_the_limit(system, solution),
        singular=attempt.singular,
        rounding=_rounding(system, attempt),
    )


def _rounding(system: _System, attempt: _Attempt) -> float:
    r"""How far the rounding of the entries of H moves the solution, relative, in the norm of H.

    Independent errors of size $\epsilon \sqrt{H_{ii} H_{jj}}$ change $H \alpha$ by a vector $e$ of
    random signs with $|e_i| = \epsilon \sqrt{H_{ii}} \|\sqrt{\operatorname{diag} H} \alpha\|$, and
    so the function by $\sqrt{e^\top H^{-1} e}$ beside $\sqrt{y^\top H^{-1} y}$. Measured on
    networks with float32 parameters, this is 1.5 to 8 times the change.
    """
    solution = attempt.solution
    if not system.tiles.eps or not np.any(system.y):
        return 0.0
    if solution is None or attempt.again is None or (attempt.singular and not solution.converged):
        return math.inf
    size = np.sqrt(np.maximum(system.tiles.diagonal(), 0.0))
    e = (size * np.random.default_rng(0).choice([-1.0, 1.0], len(size)))[:, None]
    # A rough solution will do, for no more work than the solution itself took; it errs downwards.
    moved = attempt.again(e, tolerance=0.1, max_iterations=max(10, solution.iterations))
    spread = float(np.sum(e * moved.value))
    energy = np.sum(solution.value * system.y, axis=0)
    error = system.tiles.eps * np.linalg.norm(size[:, None] * solution.value, axis=0)
    given = np.any(system.y != 0, axis=0)
    if not (spread >= 0 and np.all(energy[given] > 0)):  # H is not positive definite
        return math.inf
    return float(np.max(error[given] * np.sqrt(spread / energy[given])))


def _at_the_limit(system: _System, solution: IterativeSolution) -> bool:
    """Whether rounding in the product alone explains the residual, so that no solve does better."""
    eps = system.tiles.product_eps
    exact = eps <= float(np.finfo(np.float64).eps)
    if not solution.residual <= (_LARGEST_LIMIT if exact else _LARGEST_LIMIT_FLOAT32):
        return False
    trace = float(np.sum(system.tiles.diagonal())) + system.ridge * system.tiles.n
    rounding = 4 * eps * trace  # of H, entry by entry, at most
    remainder = np.linalg.norm(solution.remainder, axis=0)
    return bool(np.all(remainder <= rounding * np.linalg.norm(solution.value, axis=0)))


def _null_pivot(tiles: Tiles) -> float:
    """Pivots below this, for a unit diagonal, count as zero (AR-33).

    First what a factorisation leaves, then the rounding of kernels made with a plain arccos, then
    that of kernels in float32.
    """
    return max(tiles.n**2 * float(np.finfo(np.float64).eps), 2e-8, tiles.noise)


def _fitting_method(tiles: Tiles) -> str:
    if tiles.by_products:
        return "conjugate-gradients"
    if tiles.fits(8):
        return "cholesky"
    return "float32" if tiles.fits(4) else "conjugate-gradients"


def _check_memory(tiles: Tiles, method: str) -> None:
    itemsize = {"cholesky": 8, "float32": 4}.get(method)
    if itemsize is not None and not tiles.fits(itemsize):
        raise ValueError(
            f"`memory` must be at least {tiles.least(itemsize):.4g} bytes for method={method!r} "
            f"with {tiles.n} samples, got memory={tiles.memory:.4g}. Give the operator more, or "
            "method='auto'."
        )


def _ridged(matmat: Matmat, ridge: float, V: Float64[np.ndarray, "n c"]):
    return matmat(V) + ridge * V


def _by_cholesky(system: _System) -> _Attempt:
    tiles = system.tiles
    H = tiles.assemble(shift=system.ridge, progress=system.progress)
    with float64():
        diagonal = np.array(H.diagonal())  # before the factorisation uses it up
    factor = cholesky_in_place(H)
    if factor is None:
        return _Attempt(None, True)
    # Relative to their own diagonal: a row of small norm is not a dependent row.
    pivots = factor.pivots() / diagonal
    singular = float(np.min(pivots)) <= _null_pivot(tiles)
    # On the host the array of the factor still holds the matrix; elsewhere tiles are cheap.
    shared = isinstance(factor, HostCholesky)
    matmat = factor.matmat if shared else functools.partial(_ridged, tiles.matmat, system.ridge)
    solve = functools.partial(conjugate_gradients, matmat, precondition=factor.solve)
    solution = solve(system.y, tolerance=system.tolerance, max_iterations=_FACTORED_ITERATIONS)
    return _Attempt(solution, singular, solve)


def _by_float32(system: _System) -> _Attempt:
    tiles, ridge = system.tiles, system.ridge
    diagonal = tiles.diagonal() + ridge

    def assemble(scale, shift):
        H = tiles.assemble(np.float32, scale=scale, shift=shift, progress=system.progress)
        if ridge == 0:
            return H
        # The ridge sits on the diagonal alone, which the scaling makes 1 together with it.
        rows = np.arange(tiles.n)
        if isinstance(H, np.ndarray):
            H[rows, rows] = np.float32(1 + shift)
            return H
        return H.at[rows, rows].set(np.float32(1 + shift))

    factor = float32_factor(assemble, diagonal)
    if factor is None:
        return _Attempt(None, False)
    matmat = functools.partial(_ridged, tiles.matmat, ridge)
    solve = functools.partial(conjugate_gradients, matmat, precondition=factor)
    solution = solve(
        system.y,
        tolerance=system.tolerance,
        max_iterations=_FACTORED_ITERATIONS,
        progress=system.progress,
    )
    # With the diagonal scaled to 1, a pivot at rounding says that float32 sees a singular matrix;
    # whether it truly is, only the residual in float64 tells.
    return _Attempt(solution, factor.shift > 0 and not solution.converged, solve)


class PreconditionerSize(NamedTuple):
    """Columns of the low-rank factor, and how many of them are computed at a time."""

    rank: int
    block: int


def preconditioner_size(tiles: Tiles) -> PreconditionerSize:
    """A quarter of the budget is for the factor, an eighth for what makes it."""
    column = 8 * tiles.n
    most = _LARGEST_RANK_BY_PRODUCTS if tiles.by_products else _LARGEST_RANK
    rank = min(most, tiles.n, max(1, tiles.memory // (4 * column)))
    rank = min(rank, max(1, math.isqrt(tiles.memory // (8 * 4 * 8))))  # four of its square
    block = min(_LARGEST_BLOCK, max(_SMALLEST_BLOCK, tiles.memory // (8 * 6 * column)))
    return PreconditionerSize(rank, block)


def _by_conjugate_gradients(system: _System) -> _Attempt:
    tiles = system.tiles
    diagonal = tiles.diagonal()
    check_diagonal(tiles, diagonal, system.ridge)
    size = preconditioner_size(tiles)
    columns = functools.partial(tiles.columns, width=size.block)
    F = pivoted_cholesky(columns, diagonal, size.rank, block=size.block)
    # Columns in float32 differ from what float32 products do by that much.
    floor = tiles.noise * float(np.mean(diagonal)) if tiles.by_products else 0.0
    solve = functools.partial(
        conjugate_gradients,
        functools.partial(_ridged, tiles.products(), system.ridge),
        precondition=LowRankPreconditioner.from_factor(F, diagonal, ridge=system.ridge + floor),
    )
    solution = solve(
        system.y, tolerance=system.tolerance, max_iterations=_ITERATIONS, progress=system.progress
    )
    return _Attempt(solution, False, solve)


METHODS: dict[str, Callable[[_System], _Attempt]] = {
    "cholesky": _by_cholesky,
    "float32": _by_float32,
    "conjugate-gradients": _by_conjugate_gradients,
}
