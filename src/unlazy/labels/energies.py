# SPDX-License-Identifier: Apache-2.0
"""The label energy y^T H^-1 y and the complexity measure made of it, also for singular H."""

import math
import warnings
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import as_array, check_gram, check_labels
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.core.float64 import float64
from unlazy.kernels import KernelOperator
from unlazy.kernels.operators import check_sides
from unlazy.kernels.solving import solve_tiles
from unlazy.linalg import cholesky, eigh

_MOST_PAIRS = 5  # named in the warning
_RESIDUAL = 1e-10  # of solves with an operator; the energy's error is about its square
_LARGEST_EIGH = 5000  # rows of an operator up to which a singular one is decomposed


@entry
def energy(
    H: Float[Array | np.ndarray, "n n"] | KernelOperator, y: Float[Array | np.ndarray, "n *c"]
) -> float:
    r"""How much it costs a kernel to interpolate the labels.

    $$M = y^\top H^{-1} y$$

    the squared RKHS norm of the interpolating function, and the squared distance that an infinitely
    wide network travels to fit the labels; summed over the columns of `y`. A float64 Cholesky
    factorisation takes n^3/3 operations. For an operator (`kernels.operator`), `solve` keeps within
    its memory.

    For a singular `H` (duplicate rows in the data) the pseudo-inverse is used: if the duplicates'
    labels agree, the value is that without them. If they do not, no function interpolates: the
    result is `inf`, with a warning that names the rows. No ridge is ever added.

    Source: AR-11, AR-32 and AR-33, arXiv:1901.08584 Theorem 5.1.

    Warns:
        UnlazyWarning: the labels cannot be interpolated, or the solve with an operator has not
            converged and the result is only a lower bound.

    Example:
        >>> energy(jnp.diag(jnp.array([4.0, 0.25])), jnp.array([1.0, -1.0]))
        4.25
    """
    if isinstance(H, KernelOperator):
        check_sides(H, y)
        return _operator_energy(H, np.asarray(y, np.float64).reshape(H.shape[0], -1))
    K, y = as_array(H, "H"), as_array(y, "y")
    check_gram(K)
    check_labels(y, K.shape[0])
    K, y = _balanced(K, y)
    factor = cholesky(K)
    tolerance = _null_tolerance(K, float(np.sum(_diagonal(K))))
    if factor is not None and (smallest := factor.smallest_eigenvalue()) > tolerance:
        if K.dtype == jnp.float32:
            largest = float(np.max(np.sum(np.abs(np.asarray(K)), axis=1)))
            _warn_of_rounding(float(np.finfo(np.float32).eps) * largest / smallest)
        white = np.asarray(factor.whiten(y))
        return float(np.sum(white**2))
    return _energy_on_the_range(K, np.asarray(y, np.float64).reshape(K.shape[0], -1))


@entry
def complexity(
    H: Float[Array | np.ndarray, "n n"] | KernelOperator, y: Float[Array | np.ndarray, "n *c"]
) -> float:
    r"""The complexity measure that bounds the population loss, whatever the width.

    $$\sqrt{\frac{2\, y^\top H^{-1} y}{n}}$$

    It is not clipped: above 1 it says nothing as a bound, but still ranks label sets. Raises and
    warns as `labels.energy` does.

    Source: AR-11, arXiv:1901.08584 Theorem 5.1.

    Example:
        >>> complexity(jnp.eye(2) / 4, jnp.array([2.0, 2.0]))
        5.656854249492381
    """
    return math.sqrt(2 * energy(H, y) / H.shape[0])


def _balanced(H: Array | np.ndarray, y: Array | np.ndarray) -> tuple[Any, Any]:
    """The same energy from a unit diagonal, if the rows' norms differ much.

    A row of small norm makes a small eigenvalue, which must not look like a dependent row.
    """
    size = np.sqrt(np.maximum(_diagonal(H), 0))
    if size.min() <= 0 or size.max() <= 30 * size.min():
        return H, y
    labels = np.asarray(y, np.float64)
    return np.asarray(H) / np.outer(size, size).astype(H.dtype), (labels.T / size).T


def _warn_of_rounding(error: float) -> None:
    if error > 1e-3:
        warnings.warn(
            f"`H` is in float32, which at its condition number may cost a relative error of "
            f"{error:.1g}. Compute it in float64, the default of the kernels.",
            UnlazyWarning,
            stacklevel=user_level(),
        )


def _diagonal(H: Float[Array | np.ndarray, "n n"]) -> Float64[np.ndarray, " n"]:
    with float64():
        return np.asarray(jnp.diagonal(H), np.float64)


def null_tolerance(n: int, dtype: jnp.dtype, *, size: float, largest: float) -> float:
    """Eigenvalues below this count as zero, for entries up to `size` that came in `dtype` (AR-33).

    It is the larger of the rounding of a float64 factorisation and that of the entries: independent
    errors of size e make a matrix of norm 2 sqrt(n) e. A matrix made in float64 with a plain arccos
    has errors of 1e-8 at duplicate rows; `relu_gram` has none.
    """
    entries = 4 * math.sqrt(n) * float(np.finfo(np.float32).eps) if dtype == jnp.float32 else 2e-8
    return max(n * float(np.finfo(np.float64).eps) * largest, entries * size)


def _null_tolerance(H: Float[Array | np.ndarray, "n n"], largest: float) -> float:
    size = float(np.max(_diagonal(H)))
    return null_tolerance(H.shape[0], H.dtype, size=size, largest=largest)


def _energy_on_the_range(H: Float[Array | np.ndarray, "n n"], y: Float64[np.ndarray, "n c"]):
    eigen = eigh(H)
    tolerance = _null_tolerance(H, float(eigen.values[0]))
    if eigen.values[-1] < -100 * tolerance:
        raise ValueError(
            "`H` must be positive semi-definite, got a smallest eigenvalue of "
            f"{eigen.values[-1]:.3g} beside a largest of {eigen.values[0]:.3g}."
        )
    projections = np.asarray(eigen.vectors).T @ y
    null = eigen.values <= tolerance
    outside = float(np.linalg.norm(projections[null]))
    if outside > 1e-6 * float(np.linalg.norm(y)):
        pairs = _conflicting_pairs(*_parallel_pairs(np.asarray(H, np.float64)), _diagonal(H), y)
        _warn_of_conflict(*pairs, outside / float(np.linalg.norm(y)))
        return math.inf
    return float(np.sum(projections[~null] ** 2 / eigen.values[~null, None]))


def _operator_energy(H: KernelOperator, y: Float64[np.ndarray, "n c"]) -> float:
    """The energy by a solve; if that fails or `H` is singular, from the rows that are parallel."""
    solution = solve_tiles(H.tiles, y, tolerance=_RESIDUAL)
    if solution.converged and not solution.singular:
        _warn_of_rounding(solution.rounding)
        return solution.energy
    first = H.tiles.first_parallel()
    copies = np.flatnonzero(first != np.arange(len(first)))
    if copies.size:
        pairs = _conflicting_pairs(first[copies], copies, H.diagonal(), y)
        if len(pairs[0]):
            _warn_of_conflict(*pairs)
            return math.inf
        alone = np.flatnonzero(first == np.arange(len(first)))
        return _operator_energy(H.take(alone), y[alone])
    if len(y) <= _LARGEST_EIGH and H.tiles.fits():
        dense = H.dense().astype(jnp.float32) if H.tiles.eps else H.dense()  # as it was computed
        return _energy_on_the_range(*_balanced(dense, y))
    if not solution.converged:
        warnings.warn(
            "The solve for the label energy has not converged (relative residual "
            f"{solution.residual:.2g}): the value is a lower bound only. Give the operator more "
            "memory, or look for rows that are nearly the same.",
            UnlazyWarning,
            stacklevel=user_level(),
        )
    return max(solution.energy, 0.0)  # no energy is below zero


def _warn_of_conflict(first: np.ndarray, second: np.ndarray, mass: float | None = None) -> None:
    if len(first):
        pairs = zip(first[:_MOST_PAIRS], second[:_MOST_PAIRS], strict=True)
        named = ", ".join(f"{i} and {j}" for i, j in pairs)
        more = f" and {len(first) - _MOST_PAIRS} more" if len(first) > _MOST_PAIRS else ""
        why = f"rows {named}{more} are duplicates with different labels"
    else:
        why = "rows are linearly dependent under the kernel and their labels are not"
    share = "" if mass is None else f" (a share {mass:.2g} of them lies where the kernel vanishes)"
    warnings.warn(
        f"No function interpolates these labels: {why}{share}. "
        "The label energy is infinite; drop or relabel the rows.",
        UnlazyWarning,
        stacklevel=user_level(),
    )


def _parallel_pairs(H: Float64[np.ndarray, "n n"]) -> tuple[np.ndarray, np.ndarray]:
    norm = np.sqrt(np.maximum(np.diagonal(H), 0))
    parallel = (1 - 1e-7) * norm[:, None] * norm[None, :] <= H
    i, j = np.nonzero(np.triu(parallel, k=1))
    return i, j


def _conflicting_pairs(
    i: np.ndarray, j: np.ndarray, diagonal: Float64[np.ndarray, " n"], y: Float64[np.ndarray, "n c"]
) -> tuple[np.ndarray, np.ndarray]:
    """The parallel pairs whose labels are not in the ratio of their norms."""
    norm = np.sqrt(np.maximum(diagonal, 0))
    gap = np.linalg.norm(y[i] * norm[j, None] - y[j] * norm[i, None], axis=1)
    conflict = gap > 1e-6 * np.linalg.norm(y) * np.maximum(norm[i], norm[j])
    return i[conflict], j[conflict]
