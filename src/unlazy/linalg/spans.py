# SPDX-License-Identifier: Apache-2.0
"""Orthonormal bases of column spaces, with the rank from the singular values."""

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.entries import entry


class ColumnSpace(eqx.Module):
    """An orthonormal basis in the columns of `basis`, and all singular values, largest first."""

    basis: Float64[np.ndarray, "n r"]
    values: Float64[np.ndarray, " q"]

    @property
    def rank(self) -> int:
        """How many singular values were kept."""
        return self.basis.shape[1]


@entry
def column_space(
    A: Float[Array | np.ndarray, "n c"], *, cut: float, relative: bool = False
) -> ColumnSpace:
    """The space that the columns of `A` span, in float64.

    Singular values up to `cut` count as zero; with `relative`, up to `cut` times the largest. They
    come from the triangle of a QR factorisation: the product of `A` with its transpose would square
    them, and lose those below 1e-8 of the largest.

    Example:
        >>> space = column_space(np.array([[1.0, 2.0], [1.0, 2.0], [0.0, 0.0]]), cut=1e-10)
        >>> print(space.rank, abs(space.basis).ravel().round(4))
        1 [0.7071 0.7071 0.    ]
    """
    A = np.asarray(A, np.float64)
    if 0 in A.shape:
        return ColumnSpace(np.zeros((A.shape[0], 0)), np.zeros(0))
    # NumPy's LAPACK, not XLA, which would compile anew for every number of columns.
    Q, R = np.linalg.qr(A)
    U, values, _ = np.linalg.svd(R, full_matrices=False)
    rank = int(np.count_nonzero(values > (cut * values[0] if relative else cut)))
    return ColumnSpace(Q @ U[:, :rank], values)
