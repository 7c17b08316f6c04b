# SPDX-License-Identifier: Apache-2.0
"""Partial Cholesky factorisation with random pivots, and a preconditioner from it."""

from collections.abc import Callable

import equinox as eqx
import numpy as np
import scipy.linalg
from jaxtyping import Float64, Int

from unlazy.core.entries import entry

_RANK_TOLERANCE = 1e-10  # of a block of pivots, below which they depend on each other


@entry
def pivoted_cholesky(
    columns: Callable[[Int[np.ndarray, " b"]], Float64[np.ndarray, "n b"]],
    diagonal: Float64[np.ndarray, " n"],
    rank: int,
    *,
    block: int = 128,
) -> Float64[np.ndarray, "n r"]:
    r"""A factor $F$ with $H \approx F F^\top$, from few columns of $H$.

    Pivots are drawn in blocks, with probability proportional to the diagonal of the remainder
    $H - F F^\top$, so that rows already explained, such as duplicates, are not drawn. The seed is
    fixed: two runs agree. The remainder is positive semi-definite.

    Args:
        columns: gives the columns of $H$ of these numbers.
        diagonal: the diagonal of $H$.
        rank: columns of the factor at most; fewer when the remainder vanishes.
        block: pivots drawn at a time; about six arrays of that width are held beside the factor.

    Example:
        >>> H = np.array([[1.0, 0.5], [0.5, 1.0]])
        >>> F = pivoted_cholesky(lambda j: H[:, j], np.diagonal(H), rank=2)
        >>> bool(np.allclose(F @ F.T, H))
        True
    """
    n = len(diagonal)
    F = np.zeros((n, min(rank, n)), order="F")
    left, r = np.maximum(diagonal, 0.0), 0
    negligible = 1e-14 * float(np.sum(left))
    draw = np.random.default_rng(0)
    while r < F.shape[1] and float(np.sum(left)) > negligible:
        size = min(block, F.shape[1] - r, np.count_nonzero(left))
        pivots = draw.choice(n, size, replace=False, p=left / np.sum(left))
        fresh = columns(pivots) - F[:, :r] @ F[pivots, :r].T
        values, vectors = np.linalg.eigh((fresh[pivots] + fresh[pivots].T) / 2)
        kept = values > _RANK_TOLERANCE * max(float(values[-1]), float(np.max(left)))
        left[pivots] = 0.0
        if not np.any(kept):
            continue
        new = fresh @ (vectors[:, kept] / np.sqrt(values[kept]))
        F[:, r : r + new.shape[1]] = new
        left = np.maximum(left - np.sum(new**2, axis=1), 0.0)
        left[pivots] = 0.0
        r += new.shape[1]
    return F[:, :r]


class LowRankPreconditioner(eqx.Module):
    r"""$(F F^\top + \mu I)^{-1}$, by the Woodbury identity."""

    F: Float64[np.ndarray, "n r"]
    core: Float64[np.ndarray, "r r"]  # lower Cholesky factor of mu I + F^T F
    mu: float

    @classmethod
    @entry
    def from_factor(
        cls,
        F: Float64[np.ndarray, "n r"],
        diagonal: Float64[np.ndarray, " n"],
        *,
        ridge: float = 0.0,
    ) -> "LowRankPreconditioner":
        """Take as `mu` the ridge plus the mean diagonal of the remainder."""
        left = np.mean(np.maximum(diagonal - np.einsum("ij,ij->i", F, F), 0.0))
        # Never zero: without a remainder, the rounding of the diagonal is left.
        mu = ridge + max(float(left), 1e-12 * float(np.mean(diagonal)))
        core = np.linalg.cholesky(F.T @ F + mu * np.eye(F.shape[1]))
        return cls(F, core, float(mu))

    @entry
    def __call__(self, r: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        """The product with each column of `r`."""
        inner = scipy.linalg.cho_solve((self.core, True), self.F.T @ r)
        return (r - self.F @ inner) / self.mu
