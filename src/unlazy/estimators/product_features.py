# SPDX-License-Identifier: Apache-2.0
r"""Ridge regression on features that are products $A_i \otimes x_i$, without forming them.

The tangent features of a hidden layer are such products: slopes of the neurons times the input. So
are the features of the readout, with $x_i = 1$. Their kernel is $(A A^\top) \circ (x x^\top)$.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh

_ENTRIES = 2**22  # of features at a time: 32 MB


class ProductFeatures(NamedTuple):
    r"""The features $\phi_i = A_i \otimes x_i$ of each of n rows, p = h d of them."""

    A: Float64[np.ndarray, "n h"]
    x: Float64[np.ndarray, "n d"]

    def weighted(self, weights: Float64[np.ndarray, " n"]) -> "ProductFeatures":
        """The features times the roots of the weights."""
        return ProductFeatures(np.sqrt(weights)[:, None] * self.A, self.x)

    def ridge_solution(
        self, y: Float64[np.ndarray, "n c"], ridge: float
    ) -> Float64[np.ndarray, "c h d"]:
        r"""The minimum of $\sum_i \|\langle\phi_i, u\rangle - y_i\|^2 + \lambda \|u\|^2$ over u.

        Solved in the smaller of the two spaces, that of samples and that of features.
        """
        if self._is_long():
            found = _solved(self._moments(), self._combined(y).reshape(y.shape[1], -1).T, ridge)
            return found.T.reshape(y.shape[1], *self._shape())
        return self._combined(_solved(self._gram(), y, ridge))

    def leading(self, rank: int) -> Float64[np.ndarray, "r h d"]:
        r"""G with $\|G u\|^2$ the part of $\sum_i \langle\phi_i, u\rangle^2$ in `rank` directions.

        These are the leading singular directions of the features.
        """
        matrix = self._moments() if self._is_long() else self._gram()
        most = len(matrix)
        values, vectors = eigh(matrix, subset_by_index=(max(0, most - rank), most - 1))
        if not self._is_long():
            return self._combined(vectors)
        scaled = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
        return scaled.reshape(-1, *self._shape())

    def _is_long(self) -> bool:
        h, d = self._shape()
        return len(self.A) > h * d

    def _shape(self) -> tuple[int, int]:
        return self.A.shape[1], self.x.shape[1]

    def _gram(self) -> Float64[np.ndarray, "n n"]:
        return (self.A @ self.A.T) * (self.x @ self.x.T)

    def _moments(self) -> Float64[np.ndarray, "p p"]:
        p = np.prod(self._shape())
        return sum((rows.T @ rows for rows in self._blocks()), start=np.zeros((p, p)))

    def _combined(self, y: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "c h d"]:
        """The sum of the features, with the coefficients of each column."""
        columns = [self.A.T @ (column[:, None] * self.x) for column in y.T]
        return np.stack(columns)

    def _blocks(self) -> Iterator[Float64[np.ndarray, "b p"]]:
        h, d = self._shape()
        size = max(1, _ENTRIES // (h * d))
        for start in range(0, len(self.A), size):
            rows = slice(start, start + size)
            yield (self.A[rows, :, None] * self.x[rows, None, :]).reshape(-1, h * d)


def _solved(matrix: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    matrix = matrix.copy()
    np.fill_diagonal(matrix, matrix.diagonal() + ridge)
    try:
        return cho_solve(cho_factor(matrix, overwrite_a=True), y)
    except LinAlgError as error:
        raise ValueError(
            "`ridge` must be large enough to make the kernel of the samples regular, "
            f"got ridge={ridge:g}, while its mean eigenvalue is {np.trace(matrix) / len(y):.3g}."
        ) from error
