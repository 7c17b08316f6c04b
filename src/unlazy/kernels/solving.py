# SPDX-License-Identifier: Apache-2.0
"""Linear systems with a Gram matrix, by the fastest method that fits the memory."""

import functools
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.kernels.tiles import Tiles
from unlazy.linalg import (
    HostCholesky,
    IterativeSolution,
    LowRankPreconditioner,
    Matmat,
    Progress,
    cholesky_in_place,
    conjugate_gradients,
    float32_factor,
    pivoted_cholesky,
)

_LARGEST_RANK = 2000  # of the preconditioner: building it costs less than one product with tiles
_FACTORED_ITERATIONS = 100  # with a factorisation as preconditioner; two or three are usual
_ITERATIONS = 2000
_LARGEST_LIMIT = 1e-6  # residual above which rounding is no excuse: the system is inconsistent


class Solution(eqx.Module):
    r"""The solution of $(H + \text{ridge} I)\, \alpha = y$, and how far it can be trusted."""

    value: Float64[np.ndarray, "n *c"]
    energy: float  # y . value, summed over columns, corrected to second order in the residual
    residual: float  # true relative residual in float64, of the worst column
    iterations: int  # products with the matrix; 1 when a factorisation was enough
    method: str  # "cholesky", "float32" or "conjugate-gradients"
    converged: bool  # whether the residual reached the tolerance, or what float64 can reach
    singular: bool  # whether a factorisation found the matrix singular to rounding


class _System(NamedTuple):
    tiles: Tiles
    y: Float64[np.ndarray, "n c"]
    ridge: float
    tolerance: float
    progress: Progress | None


class _Attempt(NamedTuple):
    solution: IterativeSolution | None  # None: the factorisation failed
    singular: bool


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

    Says nothing when it has not converged: that is for the caller to report.
    """
    columns = np.asarray(y, np.float64).reshape(tiles.n, -1)
    system = _System(tiles, columns, ridge, tolerance, progress)
    chosen = _fitting_method(tiles) if method == "auto" else method
    attempt = METHODS[chosen](system)
    if attempt.solution is None:
        chosen = "conjugate-gradients"
        attempt = METHODS[chosen](system)._replace(singular=attempt.singular)
    solution = attempt.solution
    assert solution is not None  # conjugate gradients always return something
    # M = a.y + a.r - e.He with e the error: what is left out is of second order.
    energy = float(np.sum(solution.value * (columns + solution.remainder)))
    return Solution(
        value=solution.value.reshape(np.shape(y)),
        energy=energy,
        residual=solution.residual,
        iterations=solution.iterations,
        method=chosen,
        converged=solution.converged or _at_the_limit(system, solution),
        singular=attempt.singular,
    )


def _at_the_limit(system: _System, solution: IterativeSolution) -> bool:
    """Whether rounding in the product alone explains the residual, so that no solve does better."""
    if not solution.residual <= _LARGEST_LIMIT:
        return False
    trace = float(np.sum(system.tiles.diagonal())) + system.ridge * system.tiles.n
    rounding = 4 * float(np.finfo(np.float64).eps) * trace  # of H, entry by entry, at most
    remainder = np.linalg.norm(solution.remainder, axis=0)
    return bool(np.all(remainder <= rounding * np.linalg.norm(solution.value, axis=0)))


def _null_tolerance(n: int) -> float:
    """Pivots below this, for a unit diagonal, count as zero (AR-33).

    First what a factorisation leaves, then the rounding of kernels made with a plain arccos.
    """
    return max(n**2 * float(np.finfo(np.float64).eps), 2e-8)


def _fitting_method(tiles: Tiles) -> str:
    if tiles.fits(8):
        return "cholesky"
    return "float32" if tiles.fits(4) else "conjugate-gradients"


def _ridged(matmat: Matmat, ridge: float, V: Float64[np.ndarray, "n c"]):
    return matmat(V) + ridge * V


def _by_cholesky(system: _System) -> _Attempt:
    tiles = system.tiles
    H = tiles.assemble(shift=system.ridge, progress=system.progress)
    with jax.enable_x64(True):
        diagonal = np.array(H.diagonal())  # before the factorisation uses it up
    factor = cholesky_in_place(H)
    if factor is None:
        return _Attempt(None, True)
    # Relative to their own diagonal: a row of small norm is not a dependent row.
    pivots = factor.pivots() / diagonal
    singular = float(np.min(pivots)) <= _null_tolerance(tiles.n)
    # On the host the array of the factor still holds the matrix; elsewhere tiles are cheap.
    shared = isinstance(factor, HostCholesky)
    matmat = factor.matmat if shared else functools.partial(_ridged, tiles.matmat, system.ridge)
    solution = conjugate_gradients(
        matmat,
        system.y,
        precondition=factor.solve,
        tolerance=system.tolerance,
        max_iterations=_FACTORED_ITERATIONS,
    )
    return _Attempt(solution, singular)


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
    solution = conjugate_gradients(
        functools.partial(_ridged, tiles.matmat, ridge),
        system.y,
        precondition=factor,
        tolerance=system.tolerance,
        max_iterations=_FACTORED_ITERATIONS,
        progress=system.progress,
    )
    # With the diagonal scaled to 1, a pivot at rounding says that float32 sees a singular matrix;
    # whether it truly is, only the residual in float64 tells.
    return _Attempt(solution, factor.shift > 0 and not solution.converged)


def _by_conjugate_gradients(system: _System) -> _Attempt:
    tiles = system.tiles
    diagonal = tiles.diagonal()
    rank = min(_LARGEST_RANK, tiles.n, max(1, tiles.memory // (4 * 8 * tiles.n)))
    F = pivoted_cholesky(tiles.columns, diagonal, rank)
    solution = conjugate_gradients(
        functools.partial(_ridged, tiles.products(), system.ridge),
        system.y,
        precondition=LowRankPreconditioner.from_factor(F, diagonal, ridge=system.ridge),
        tolerance=system.tolerance,
        max_iterations=_ITERATIONS,
        progress=system.progress,
    )
    return _Attempt(solution, False)


METHODS: dict[str, Callable[[_System], _Attempt]] = {
    "cholesky": _by_cholesky,
    "float32": _by_float32,
    "conjugate-gradients": _by_conjugate_gradients,
}
