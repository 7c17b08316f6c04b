# SPDX-License-Identifier: Apache-2.0
"""Projectors on the leading directions of the tangent features: of a sample, and of the sphere."""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.float64 import float64
from unlazy.escape.good_directions.covariance import SphereCovariance
from unlazy.escape.good_directions.linear_term import LinearTerm
from unlazy.linalg import eigh, top_eigen

_DENSE = 2500  # directions up to which the covariance is decomposed as a whole
_SPARE = 8  # more vectors than asked for, so that Lanczos sees past the last one
_SINGULAR = 1e-12  # of the largest eigenvalue: below, a direction is rounding
_matmul = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)

Values = Float64[np.ndarray, " p"]
Vectors = Float64[Array | np.ndarray, "q p"]


class Energies(NamedTuple):
    """Mean squares of the linear term of the parts of a movement."""

    high: Float[Array, ""]
    low: Float[Array, ""]


class SampleProjector(eqx.Module):
    r"""The projector on the leading right singular vectors of the features of N points.

    $$P = V_1 V_1^\top, \qquad V_1 = \Phi^\top U_1 \,\mathrm{diag}(s_1)^{-1},$$

    from the eigenvectors $U_1$ of $K = \Phi \Phi^\top$; neither $\Phi$ nor $V_1$ is formed.

    Source: NB-7 and NB-8, arXiv:2206.03688.
    """

    term: LinearTerm
    U: Float64[np.ndarray, "n r"]
    squares: Float64[np.ndarray, " r"]  # leading eigenvalues of K

    def coordinates(self, W: Float[Array, "m d"]) -> Float[Array, " r"]:
        """The components of the values at the points along the leading eigenvectors."""
        f = self.term(W)
        return _matmul(jnp.asarray(self.U, f.dtype).T, f)

    def movement(self, q: Float[Array, " r"]) -> Float[Array, "m d"]:
        """The movement within the leading directions that has these coordinates."""
        c = q / jnp.asarray(self.squares, q.dtype)
        return self.term.transpose(_matmul(jnp.asarray(self.U, q.dtype), c))

    def energies(self, W: Float[Array, "m d"]) -> Energies:
        """Energies of the two parts of `W`, averaged over the N points."""
        f = self.term(W)
        U = jnp.asarray(self.U, f.dtype)
        inside = _matmul(U, _matmul(U.T, f))
        # The part outside by itself, not as a difference of two mean squares.
        return Energies(jnp.mean((f - inside) ** 2), jnp.mean(inside**2))


class SphereProjector(eqx.Module):
    r"""The projector on the leading eigenvectors of the exact covariance over the sphere.

    Source: NB-12 to NB-14, arXiv:2206.03688.
    """

    covariance: SphereCovariance
    V: Float64[np.ndarray, "p r"]  # in the coordinates of the covariance
    values: Float64[np.ndarray, " r"]

    def coordinates(self, W: Float[Array, "m d"]) -> Float[Array, " r"]:
        """The components of the movement along the leading eigenvectors."""
        u = self.covariance.coordinates(W)
        return _matmul(jnp.asarray(self.V, W.dtype).T, u.reshape(-1))

    def movement(self, q: Float[Array, " r"]) -> Float[Array, "m d"]:
        """The movement within the leading directions that has these coordinates."""
        u = _matmul(jnp.asarray(self.V, q.dtype), q)
        return self.covariance.movement(u.reshape(self.covariance.units.shape))

    def energies(self, W: Float[Array, "m d"]) -> Energies:
        """Energies of the two parts of `W`, averaged over the sphere."""
        q = self.coordinates(W)
        # The part outside by itself, not as a difference of two energies.
        high = self.covariance.energy(W - self.movement(q))
        return Energies(high, jnp.sum(jnp.asarray(self.values, q.dtype) * q**2))


Projector = SampleProjector | SphereProjector


def decompose_sphere(covariance: SphereCovariance, rank: int | None) -> tuple[Values, Vectors]:
    """All eigenpairs of the covariance, largest first, if it is small, else the leading ones."""
    h, d = covariance.units.shape
    if h * d > _DENSE and rank is None:
        raise ValueError(
            f"`rank` or `degree` must be given for the exact covariance of more than {_DENSE} "
            f"directions, got rank=None and {h * d} directions. Only the leading ones are computed."
        )
    if rank is None or h * d <= _DENSE:
        eigen = eigh(covariance.dense())
        return np.maximum(eigen.values, 0.0), eigen.vectors
    with float64():
        product = eqx.filter_jit(type(covariance).product)

        def matmat(columns: Float64[np.ndarray, "p c"]) -> Float64[np.ndarray, "p c"]:
            u = jnp.asarray(columns.T.reshape(-1, h, d))
            return np.asarray(product(covariance, u)).reshape(-1, h * d).T

        # The draw is fixed: two runs agree.
        start = np.random.default_rng(0).standard_normal((h * d, rank + _SPARE))
        eigen = top_eigen(matmat, start, rank + 1, tolerance=1e-8)
    return eigen.values, eigen.vectors


def leading(values: Values, vectors: Vectors, rank: int) -> Float64[np.ndarray, "q r"]:
    """The first `rank` eigenvectors; raise if some eigenvalues are zero up to rounding."""
    if values[rank - 1] <= _SINGULAR * values[0]:
        known = int(np.sum(values > _SINGULAR * values[0]))
        raise ValueError(
            f"`rank` must be at most {known}, the number of directions in which the features vary "
            f"at all, got rank={rank}. Inputs repeat, or the network is too narrow."
        )
    return np.asarray(vectors)[:, :rank]
