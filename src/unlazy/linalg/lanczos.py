# SPDX-License-Identifier: Apache-2.0
"""Block Lanczos with full reorthogonalisation: leading eigenpairs, and quadrature of f(H)."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import numpy as np
import scipy.linalg
from jaxtyping import Float64

from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.linalg.iterative import Matmat, Progress
from unlazy.linalg.spectra import draw_eigenvalues

_DEPENDENT = 1e-13  # a remainder of a direction this small, relative to the block, counts as zero


class PartialEigen(eqx.Module):
    r"""Leading eigenvalues, largest first, with a bound on the error of each.

    An eigenvalue of $H$ lies within `errors[i]` $= \|H v_i - \theta_i v_i\|$ of `values[i]`; once
    converged, the true error is about the square of that over the gap to the next eigenvalue.
    """

    values: Float64[np.ndarray, " k"]
    vectors: Float64[np.ndarray, "n k"]  # orthonormal columns
    errors: Float64[np.ndarray, " k"]
    iterations: int
    converged: bool

    @entry
    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the eigenvalues, largest first, on logarithmic axes, in the band of their errors.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            label: in the legend.
        """
        return draw_eigenvalues(ax, self.values, self.errors, label)


class Quadrature(eqx.Module):
    r"""Gauss quadrature of the spectral measure of each column of a block.

    $y_a^\top f(H) y_a \approx \sum_j f(\theta_j) q_{ja}^2$ and
    $f(H) y_a \approx \sum_j f(\theta_j) q_{ja} v_j$, where $\theta$ are `nodes`, $q$
    `projections` and $v$ the columns of `vectors`.
    """

    nodes: Float64[np.ndarray, " k"]  # largest first
    projections: Float64[np.ndarray, "k c"]
    vectors: Float64[np.ndarray, "n k"]
    change: float  # relative change of the watched values at the last step
    iterations: int
    converged: bool


@entry
def top_eigen(
    matmat: Matmat,
    start: Float64[np.ndarray, "n b"],
    count: int,
    *,
    tolerance: float = 1e-9,
    max_basis: int = 400,
    max_iterations: int = 300,
) -> PartialEigen:
    r"""The `count` largest eigenpairs of a symmetric matrix known by its products.

    Each step adds the residuals of the leading Ritz vectors to the basis, the next block of
    Lanczos; a full basis is cut down to its best part (thick restart). A block finds eigenvalues of
    a multiplicity up to its width, and costs hardly more than a vector when products evaluate
    tiles.

    Args:
        matmat: product with the matrix.
        start: random block, at least `count` columns wide.
        count: number of eigenpairs.
        tolerance: residual norm to reach, relative to the largest eigenvalue.
        max_basis: columns kept at most; each takes two vectors of memory.
        max_iterations: products with the matrix, at most.

    Example:
        >>> H = np.diag([3.0, 2.0, 1.0, 0.5])
        >>> eigen = top_eigen(lambda v: H @ v, np.eye(4)[:, :2] + 0.1, 2)
        >>> print(eigen.values.round(9))
        [3. 2.]
    """
    n, width = start.shape
    largest_basis = min(n, max(max_basis, 4 * width))
    Q = orthonormal(start, np.zeros((n, 0)))
    HQ = matmat(Q)
    k = 1
    while True:
        T = Q.T @ HQ
        theta, S = _descending((T + T.T) / 2)
        k_lead = min(width, len(theta))
        vectors = Q @ S[:, :k_lead]
        R = HQ @ S[:, :k_lead] - vectors * theta[:k_lead]
        errors = np.linalg.norm(R[:, :count], axis=0)
        converged = bool(np.all(errors <= tolerance * abs(theta[0])))
        new = orthonormal(R, Q, scale=abs(float(theta[0])))
        if converged or k >= max_iterations or new.shape[1] == 0 or Q.shape[1] >= n:
            return PartialEigen(theta[:count], vectors[:, :count], errors, k, converged)
        if Q.shape[1] + new.shape[1] > largest_basis:
            Q, HQ = Q @ S[:, : 2 * width], HQ @ S[:, : 2 * width]
        Q, HQ = np.hstack([Q, new]), np.hstack([HQ, matmat(new)])
        k += 1


@entry
def krylov_quadrature(
    matmat: Matmat,
    y: Float64[np.ndarray, "n c"],
    watch: Callable[[Float64[np.ndarray, " k"], Float64[np.ndarray, "k c"]], np.ndarray],
    *,
    companion: Float64[np.ndarray, "n b"] | None = None,
    tolerance: float = 1e-8,
    max_basis: int = 1000,
    progress: Progress | None = None,
) -> Quadrature:
    r"""Quadrature nodes and weights for the columns of `y`, exact up to degree $2k - 1$.

    The Krylov space of all columns together grows until the values of `watch` change by less than
    `tolerance`, relative to themselves.

    Args:
        matmat: product with the matrix.
        y: starting block.
        watch: what the caller will compute from nodes and projections, as a vector.
        companion: further columns whose Krylov space joins the basis, unweighted; random ones make
            the largest node the largest eigenvalue even when `y` has no part there.
        tolerance: relative change at which to stop, if reached twice in a row.
        max_basis: dimension of the Krylov space at most.
        progress: called after every step with the dimension so far and at most.

    Example:
        >>> H, y = np.diag([1.0, 2.0, 4.0]), np.ones((3, 1))
        >>> rule = krylov_quadrature(lambda v: H @ v, y, lambda t, q: np.sum(q**2, axis=0) @ [1.0])
        >>> print(round(float(np.sum(rule.projections[:, 0] ** 2 / rule.nodes)), 12))
        1.75
    """
    n = len(y)
    start = y if companion is None else np.hstack([y, companion])
    block = orthonormal(start, np.zeros((n, 0)))
    Q, T = np.zeros((n, 0)), np.zeros((0, 0))
    watched, change, calm, k = None, np.inf, 0, 0
    while True:
        image = matmat(block)
        k += 1
        Q = np.hstack([Q, block])
        T = _bordered(T, Q.T @ image)
        nodes, S = _descending(T)
        projections = S.T @ (Q.T @ y)
        value = np.atleast_1d(np.asarray(watch(nodes, projections), np.float64))
        if watched is not None:
            change = _relative_change(value, watched)
        watched, calm = value, calm + 1 if change <= tolerance else 0
        if progress is not None:
            progress(Q.shape[1], min(n, max_basis))
        block = orthonormal(image, Q, scale=abs(float(nodes[0])))
        exhausted = block.shape[1] == 0 or Q.shape[1] >= n
        if exhausted or calm >= 2 or Q.shape[1] + block.shape[1] > max_basis:
            error = 0.0 if exhausted else change
            return Quadrature(nodes, projections, Q @ S, error, k, exhausted or calm >= 2)


def orthonormal(
    block: Float64[np.ndarray, "n b"], Q: Float64[np.ndarray, "n m"], *, scale: float | None = None
) -> Float64[np.ndarray, "n r"]:
    """Orthonormal columns that span `block` beyond the span of `Q`, without dependent ones."""
    if scale is None:
        scale = float(np.max(np.linalg.norm(block, axis=0), initial=0.0))
    for _ in range(2):  # once is not enough to full precision, twice is
        block = block - Q @ (Q.T @ block)
    # Its type depends on the options in a way that the stubs do not follow.
    decomposition: Any = scipy.linalg.qr(block, mode="economic", pivoting=True)
    basis, R, _ = decomposition
    basis = basis[:, np.abs(np.diagonal(R)) > _DEPENDENT * scale]
    basis = basis[:, : len(basis) - Q.shape[1]]
    # Columns that were almost zero carry amplified rounding along Q.
    basis = basis - Q @ (Q.T @ basis)
    return np.linalg.qr(basis)[0]


def _descending(T: Float64[np.ndarray, "k k"]):
    values, vectors = np.linalg.eigh(T)
    return values[::-1], vectors[:, ::-1]


def _bordered(T: Float64[np.ndarray, "k k"], last: Float64[np.ndarray, "m b"]):
    """Add the last block column, and by symmetry the last block row, to the projected matrix."""
    k, m = len(T), len(last)
    grown = np.zeros((m, m))
    grown[:k, :k], grown[:, k:], grown[k:, :] = T, last, last.T
    grown[k:, k:] = (last[k:] + last[k:].T) / 2
    return grown


def _relative_change(value: np.ndarray, before: np.ndarray) -> float:
    moved = value != before  # an infinite value that stays has not changed
    size = np.maximum(np.abs(value[moved]), np.finfo(np.float64).tiny)
    if not np.all(np.isfinite(size)):
        return np.inf
    return float(np.max(np.abs(value[moved] - before[moved]) / size, initial=0.0))
