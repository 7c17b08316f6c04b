# SPDX-License-Identifier: Apache-2.0
r"""A preconditioner for Gram matrices of any size, from some of the samples.

With m landmarks z among the n samples, $C = k(x, z)$ and $G = k(z, z)$, the matrix
$K \approx C G^{-1} C^\top + \mu I$ has by the Woodbury identity the inverse

$$\frac{1}{\mu} \left(I - C\, (\mu G + C^\top C)^{-1} C^\top\right).$$

C is evaluated anew in tiles for each product, so that m may be tens of thousands: what is held is
one matrix of m by m. Its sums are in float64, since it squares the spectrum of K.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.float64 import float64
from unlazy.kernels.streaming import StreamedGram

_SAMPLED = 4096  # rows of which the part that the landmarks miss is measured
_JITTER = 1e-10  # of the mean diagonal of G, for samples that are there twice
_NOISE = 8  # units of rounding in each entry of G, where the kernel gives float32 at best
# What is added to G, in units of mu m / n: the approximation changes by 0.1 mu at most. Errors of C
# come out as their square over it, and C is in float32, where that of equal rows is up to 1e-3 of
# an entry: without it they outgrow a ridge.
_SOFTENED = 0.1
_MAGNIFIED = (16, 64, 256)  # units of rounding in the largest eigenvalue that mu is at least
_UNSYMMETRIC = 0.5  # of the geometric mean of two diagonal entries; indefinite above 1
_POWERS = 20  # products that estimate the largest eigenvalue


class LandmarkPreconditioner(eqx.Module):
    """The inverse of a low-rank approximation of the matrix plus a multiple of the identity."""

    gram: StreamedGram
    chosen: Int[np.ndarray, " m"]  # which samples are landmarks
    factor: Float64[Array, "m m"]  # lower Cholesky factor of mu G + C'C
    mu: float
    magnified: float  # mu in units of rounding in the largest eigenvalue

    @classmethod
    def from_samples(
        cls, gram: StreamedGram, landmarks: int, *, ridge: float, seed: int = 0
    ) -> "LandmarkPreconditioner":
        """Take so many of the samples, drawn evenly; `mu` is what they miss of the diagonal."""
        draw = np.random.default_rng(seed)
        chosen = np.sort(draw.choice(gram.n, landmarks, replace=False))
        others = draw.choice(gram.n, min(gram.n, _SAMPLED), replace=False)
        least, *larger = _MAGNIFIED
        with float64():
            sums = _sums(gram, chosen, others)
            found = cls._shifted(gram, chosen, sums, ridge, least)
            for more in larger:
                if found.magnified >= more:
                    continue
                if found._is_symmetric(sums.leading):
                    break
                found = cls._shifted(gram, chosen, sums, ridge, more)
            return found

    @classmethod
    def _shifted(
        cls,
        gram: StreamedGram,
        chosen: Int[np.ndarray, " m"],
        sums: "_Sums",
        ridge: float,
        magnified: int,
    ) -> "LandmarkPreconditioner":
        """With `mu` so many units of rounding at least."""
        eps, softened = float(jnp.finfo(gram.x.dtype).eps), _SOFTENED * len(chosen) / gram.n
        mu = max(ridge + sums.missed, magnified * sums.unit)
        factor = _factor(sums.G, sums.square, mu, eps, softened)
        if not bool(jnp.isfinite(factor[-1, -1])):
            raise ValueError(
                "`kernel` must be positive semi-definite and finite, got one whose matrix of "
                f"{len(chosen)} samples has no Cholesky factor."
            )
        return cls(gram, chosen, factor, mu, mu / sums.unit)

    def _is_symmetric(self, leading: Float64[Array, " m"]) -> bool:
        """Whether rounding leaves it symmetric where that is hardest.

        A residual along the leading eigenvector q of K is rounded by eps times itself, in all
        directions, and where K is small the inverse magnifies this by 1 / mu. Once that entry of
        the inverse is above the geometric mean of the two diagonal ones, it is indefinite and
        conjugate gradients diverge. This is so for mu below eps^(2/3), 200 eps, of the largest
        eigenvalue if K has directions of all sizes, as for smooth kernels, and errors are of one
        sign; for others mu may be far smaller.
        """
        q = self.gram.columns(self.chosen, leading[:, None])
        q /= jnp.linalg.norm(q)
        image = self(q)
        other = image - q * jnp.vdot(q, image)
        other /= jnp.linalg.norm(other)
        back = self(other)
        mean = jnp.vdot(q, image) * jnp.vdot(other, back)
        apart = jnp.vdot(q, back) - jnp.vdot(other, image)
        return not bool((mean <= 0) | (apart**2 > _UNSYMMETRIC**2 * mean))

    def __call__(self, r: Float64[Array, "n c"]) -> Float64[Array, "n c"]:
        """The product with each column of `r`."""
        with float64():
            inner = self.gram.columns_transposed(self.chosen, r)
            inner = jsl.cho_solve((self.factor, True), inner)
            return (r - self.gram.columns(self.chosen, inner)) / self.mu


class _Sums(NamedTuple):
    """What the inverse is made of for every shift, computed once."""

    G: Float64[Array, "m m"]
    square: Float64[Array, "m m"]  # C'C
    leading: Float64[Array, " m"]  # its leading eigenvector
    unit: float  # rounding in C, magnified by the largest eigenvalue of K: mu is so many of these
    missed: float  # of the mean diagonal


def _sums(
    gram: StreamedGram, chosen: Int[np.ndarray, " m"], others: Int[np.ndarray, " s"]
) -> _Sums:
    points, eps = gram.x[chosen], float(jnp.finfo(gram.x.dtype).eps)
    G = _symmetric(gram, points)
    missed = float(_missed(gram, G, points, gram.x[others]))
    square = gram.columns_squared(chosen)
    leading, largest = _largest(square)
    unit = eps * float(largest) ** 0.5 * (gram.n / len(chosen)) ** 0.5
    return _Sums(G, square, leading, unit, missed)


def _symmetric(gram: StreamedGram, points: Float[Array, "m d"]) -> Float64[Array, "m m"]:
    """k(z, z), in float64 if the kernel can: a factorisation needs its small eigenvalues."""
    G = gram.exact(points)
    # Independent errors of size 1 in all entries have the norm 2 sqrt(m).
    jitter = max(_JITTER, _NOISE * len(points) ** 0.5 * gram.exact_eps)
    return G + jitter * jnp.mean(jnp.diagonal(G)) * jnp.eye(len(points))


def _missed(gram: StreamedGram, G: Array, points: Array, others: Array) -> Float64[Array, ""]:
    """The mean diagonal of what the landmarks leave of the matrix."""
    C = gram.exact(others, points)
    white = jsl.solve_triangular(jnp.linalg.cholesky(G), C.T, lower=True)
    own = jnp.mean(gram.diagonal)
    return jnp.maximum(own - jnp.sum(white**2) / len(others), 0.0)


@jax.jit
def _factor(
    G: Array, square: Array, mu: float | Array, eps: float | Array, softened: float | Array
) -> Float64[Array, "m m"]:
    # What rounding does to the sums, so that samples which are there twice leave a positive matrix.
    least = len(G) * jnp.finfo(G.dtype).eps * jnp.max(jnp.diagonal(square))
    # Rounding of C, which differs between its products, must not come out of the inverse magnified:
    # this matters where the kernel has a low rank, so that most directions are rounding alone.
    least = jnp.maximum(least, 25 * eps**2 * jnp.trace(square))
    least = jnp.maximum(least, softened * mu**2)
    return jnp.linalg.cholesky(mu * G + square + least * jnp.eye(len(G)))


@jax.jit
def _largest(square: Float64[Array, "m m"]) -> tuple[Float64[Array, " m"], Float64[Array, ""]]:
    """The leading eigenvector of a matrix whose entries are mostly of one sign, and its value."""

    def step(_: int | Array, v: Array) -> Array:
        return square @ v / jnp.linalg.norm(square @ v)

    v = jnp.where(jnp.arange(len(square)) % 3 == 0, 0.5, 1.0) * jnp.sqrt(jnp.diagonal(square))
    v = jax.lax.fori_loop(0, _POWERS, step, v / jnp.linalg.norm(v))
    return v, jnp.linalg.norm(square @ v)
