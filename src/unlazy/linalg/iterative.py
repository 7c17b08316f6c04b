# SPDX-License-Identifier: Apache-2.0
"""Preconditioned conjugate gradients in float64, for several right-hand sides at once."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import as_array, calling, check_count, check_finite, check_positive
from unlazy.core.entries import entry

Matmat = Callable[[Float64[np.ndarray, "n c"]], Float64[np.ndarray, "n c"]]
"""The product of a symmetric matrix with the columns of a block."""

Progress = Callable[[int, int], None]
"""A function that is called with the work done and the work expected, in one unit."""

_PATIENCE = 200  # iterations without a better residual before giving up
_MOST_RESTARTS = 10


class IterativeSolution(NamedTuple):
    """What `conjugate_gradients` found; the remainder is recomputed at the end, hence true."""

    value: Float64[np.ndarray, "n c"]
    remainder: Float64[np.ndarray, "n c"]  # y - H value
    residual: float  # the largest relative norm of a column of the remainder
    iterations: int  # products with the matrix, without those that only check
    converged: bool


@entry
def conjugate_gradients(
    matmat: Matmat,
    y: Float64[np.ndarray, "n c"],
    *,
    precondition: Matmat | None = None,
    tolerance: float = 1e-10,
    max_iterations: int = 1000,
    progress: Progress | None = None,
) -> IterativeSolution:
    r"""Solve $H X = Y$ for a positive definite $H$ known by its products.

    Each column has its own step lengths; all share the products. The residual of the recursion
    drifts from the true one, so the true one decides: while it is too large and still falls, the
    iteration starts again from it. With a factorisation in low precision as preconditioner this is
    iterative refinement, safe even where plain refinement diverges.

    It differs from the textbook in the first iterate, the preconditioner applied to `y` (the
    solution itself if the preconditioner is a factorisation), and in the Polak-Ribiere form of the
    next direction, which tolerates a preconditioner that rounding makes slightly unsymmetric.

    Args:
        matmat: product with $H$, in float64.
        y: right-hand sides in the columns.
        precondition: product with an approximate inverse.
        tolerance: what $\|Y - H X\| / \|Y\|$ must reach in every column.
        max_iterations: products with $H$, at most.
        progress: called after every iteration with the number done and expected.

    Example:
        >>> H = np.diag([1.0, 2.0, 4.0])
        >>> solution = conjugate_gradients(lambda v: H @ v, np.ones((3, 1)))
        >>> print(solution.value[:, 0].round(12), solution.converged)
        [1.   0.5  0.25] True
    """
    y = _right_sides(y)
    check_positive(tolerance, "tolerance")
    check_count(max_iterations, "max_iterations")
    matmat = _product(matmat, "matmat")
    apply = np.copy if precondition is None else _product(precondition, "precondition")
    size = np.linalg.norm(y, axis=0)
    size = np.where(size > 0, size, 1.0)
    best = _checked(matmat, y, apply(y), size)
    if not best.residual < 1:  # of a poor preconditioner: zero leaves less
        best = IterativeSolution(np.zeros_like(y), y.copy(), float(np.any(y)), 0, False)
    done = 1
    for _ in range(_MOST_RESTARTS):
        if best.residual <= tolerance or done >= max_iterations or not math.isfinite(best.residual):
            break
        report = _reporter(progress, done, best.residual, tolerance)
        step, count = _iterate(
            matmat, best.remainder, apply, tolerance * size / 2, max_iterations - done, report
        )
        done += count
        again = _checked(matmat, y, best.value + step, size)
        stalled = not again.residual < best.residual / 2
        best = again if again.residual < best.residual else best
        if stalled:
            break
    return best._replace(iterations=done, converged=best.residual <= tolerance)


def _right_sides(y) -> Float64[np.ndarray, "n c"]:
    y = np.asarray(as_array(y, "y"), np.float64)
    check_finite(y, "y")
    if y.ndim != 2 or not y.size:
        raise ValueError(f"`y` must have a right-hand side per column, got y.shape={y.shape}.")
    return y


def _product(function: Matmat, name: str) -> Matmat:
    """The function, refused with its name where it returns no block of the shape it was given."""

    def product(V):
        with calling(name, f"a block of shape {V.shape}"):
            found = function(V)
        if np.shape(found) != V.shape:
            kind = f"shape {np.shape(found)}" if np.shape(found) else type(found).__name__
            raise ValueError(f"`{name}` must return a block of shape {V.shape}, got {kind}.")
        return np.asarray(found, np.float64)

    return product


def _checked(matmat, y, value, size) -> IterativeSolution:
    remainder = y - matmat(value)
    residual = float(np.max(np.linalg.norm(remainder, axis=0) / size))
    if not math.isfinite(residual):
        return IterativeSolution(np.zeros_like(y), y.copy(), math.inf, 0, False)
    return IterativeSolution(value, remainder, residual, 0, False)


def _iterate(matmat, y, apply, goal, most: int, report) -> tuple[Float64[np.ndarray, "n c"], int]:
    """Solve from zero until every column is below its `goal`; returns the number of steps, too."""
    x, r = np.zeros_like(y), y.copy()
    z = apply(r)
    p, rz = z.copy(), np.sum(r * z, axis=0)
    best, least, since = x, math.inf, 0
    k = 0
    for k in range(1, most + 1):
        Hp = matmat(p)
        curvature = np.sum(p * Hp, axis=0)
        # A finished column, or a direction in which the matrix is not positive, stays put.
        moving = (curvature > 0) & (np.linalg.norm(r, axis=0) > goal)
        alpha = np.where(moving, rz / np.where(moving, curvature, 1.0), 0.0)
        x = x + alpha * p
        r_new = r - alpha * Hp
        z = apply(r_new)
        rz_new = np.sum(r_new * z, axis=0)
        beta = (rz_new - np.sum(r * z, axis=0)) / np.where(rz != 0, rz, 1.0)
        p, r, rz = z + np.maximum(beta, 0.0) * p, r_new, rz_new
        worst = float(np.max(np.linalg.norm(r, axis=0) / goal))
        report(k, worst)
        best, least, since = (x, worst, 0) if worst < least else (best, least, since + 1)
        if worst <= 1 or since >= _PATIENCE or not np.any(moving) or not math.isfinite(worst):
            break
    return best, k


def _reporter(progress: Progress | None, done: int, residual: float, tolerance: float):
    def report(k: int, worst: float) -> None:
        """`worst` is the residual in units of half the tolerance."""
        if progress is None:
            return
        gained = math.log(max(residual / (worst * tolerance / 2), 1 + 1e-3))
        wanted = math.log(max(2 * residual / tolerance, 1 + 1e-3))
        progress(done + k, done + max(k, math.ceil(k * wanted / gained)))

    return report
