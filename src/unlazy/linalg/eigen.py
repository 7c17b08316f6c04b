# SPDX-License-Identifier: Apache-2.0
"""Dense decompositions in float64: eigenpairs of symmetric matrices, bases of column spaces."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import is_known
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.linalg.spectra import draw_eigenvalues


class Eigen(eqx.Module):
    """Eigenvalues, largest first, and orthonormal eigenvectors in the columns of `vectors`."""

    values: Float64[np.ndarray, " n"]
    vectors: Float64[Array, "n n"]

    @entry
    def plot(self, ax: Axes | None = None, *, label: str | None = None) -> Axes:
        """Draw the eigenvalues, largest first, on logarithmic axes; negative ones by their size.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            label: in the legend.

        Example:
            >>> print(eigh(np.diag([3.0, 2.0])).plot().get_lines()[0].get_ydata())
            [3. 2.]
        """
        return draw_eigenvalues(ax, self.values, None, label)


@entry
def eigh(H: Float[Array | np.ndarray, "n n"]) -> Eigen:
    """Eigendecomposition of a symmetric matrix, in float64.

    The largest entry of each eigenvector is positive, so that two runs or two machines agree on its
    otherwise arbitrary sign.
    """
    with float64():
        if jax.default_backend() == "cpu" and is_known(H):
            # The LAPACK that XLA calls, without a program that is compiled for every size.
            found = scipy.linalg.eigh(np.asarray(H, np.float64), driver="evd", check_finite=False)
            values, vectors = _descending(found[0], found[1], np)
            return Eigen(values, jnp.asarray(vectors))
        values, vectors = _eigh(jnp.asarray(H, jnp.float64))
        return Eigen(np.asarray(values), vectors)


@jax.jit
def _eigh(H: Float64[Array, "n n"]):
    values, vectors = jnp.linalg.eigh(H)
    return _descending(values, vectors, jnp)


def _descending(values: Any, vectors: Any, xp: Any) -> tuple[Any, Any]:
    """The largest eigenvalue first, with signs as in `eigh`; `xp` is NumPy or JAX's."""
    values, vectors = values[::-1], vectors[:, ::-1]
    largest = xp.argmax(xp.abs(vectors), axis=0)
    return values, vectors * xp.sign(xp.take_along_axis(vectors, largest[None, :], axis=0))


@entry
def gram_eigenvalues(
    values: Float64[np.ndarray, " r"], n: int | None = None, *, eps: float = 0.0
) -> Float64[np.ndarray, " r"]:
    """The eigenvalues of a Gram matrix `H`, set to zero where they are zero up to rounding.

    Args:
        values: largest first.
        n: rows of `H`, if not all of its eigenvalues are given.
        eps: relative rounding of the entries of `H`, if larger than that of float64. The norm of
            that rounding is at most `eps` times the largest eigenvalue: 0.1 to 0.3 of that, as
            measured on kernels of networks in float32.

    Raises:
        ValueError: one is truly negative, or all are zero.
    """
    largest = float(values[0])
    noise = max((n or len(values)) * float(np.finfo(np.float64).eps), eps) * abs(largest)
    if largest <= 0 or values[-1] < -1e-6 * largest:
        raise ValueError(
            "`H` must be positive semi-definite and not zero, got eigenvalues from "
            f"{values[-1]:.3g} to {largest:.3g}."
        )
    return np.where(values > noise, values, 0.0)


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
