# SPDX-License-Identifier: Apache-2.0
r"""A preconditioner for Gram matrices of any size, from some of the samples.

With m landmarks z among the n samples, $C = k(x, z)$ and $G = k(z, z)$, the matrix
$K \approx C G^{-1} C^\top + \mu I$ has by the Woodbury identity the inverse

$$\frac{1}{\mu} \left(I - C\, (\mu G + C^\top C)^{-1} C^\top\right).$$

C is evaluated anew in tiles for each product, so that m may be tens of thousands: what is held is
one matrix of m by m. Its sums are in float64, since it squares the spectrum of K.
"""

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
_MAGNIFIED = 16  # units of rounding in the largest eigenvalue that mu is at least
_POWERS = 20  # products that estimate the largest eigenvalue


class LandmarkPreconditioner(eqx.Module):
    """The inverse of a low-rank approximation of the matrix plus a multiple of the identity."""

    gram: StreamedGram
    chosen: Int[np.ndarray, " m"]  # which samples are landmarks
    factor: Float64[Array, "m m"]  # lower Cholesky factor of mu G + C'C
    mu: float

    @classmethod
    def from_samples(
        cls, gram: StreamedGram, landmarks: int, *, ridge: float, seed: int = 0
    ) -> "LandmarkPreconditioner":
        """Take so many of the samples, drawn evenly; `mu` is what they miss of the diagonal."""
        draw = np.random.default_rng(seed)
        chosen = np.sort(draw.choice(gram.n, landmarks, replace=False))
        with float64():
            points = gram.x[chosen]
            G = _symmetric(gram, points)
            others = gram.x[draw.choice(gram.n, min(gram.n, _SAMPLED), replace=False)]
            missed = _missed(gram, G, points, others)
            square, eps = gram.columns_squared(chosen), float(jnp.finfo(gram.x.dtype).eps)
            # Rounding in C is magnified by the largest eigenvalue of K over mu.
            largest = float(_largest(square)) ** 0.5 * (gram.n / landmarks) ** 0.5
            mu = max(ridge + float(missed), _MAGNIFIED * eps * largest)
            factor = _factor(G, square, mu, eps)
            if not bool(jnp.isfinite(factor[-1, -1])):
                raise ValueError(
                    "`kernel` must be positive semi-definite and finite, got one whose matrix of "
                    f"{landmarks} samples has no Cholesky factor."
                )
        return cls(gram, chosen, factor, mu)

    def __call__(self, r: Float64[Array, "n c"]) -> Float64[Array, "n c"]:
        """The product with each column of `r`."""
        with float64():
            inner = self.gram.columns_transposed(self.chosen, r)
            inner = jsl.cho_solve((self.factor, True), inner)
            return (r - self.gram.columns(self.chosen, inner)) / self.mu


def _symmetric(gram: StreamedGram, points: Float[Array, "m d"]) -> Float64[Array, "m m"]:
    """k(z, z), in float64 if the kernel can: a factorisation needs its small eigenvalues."""
    G = gram.exact(points)
    return G + _JITTER * jnp.mean(jnp.diagonal(G)) * jnp.eye(len(points))


def _missed(gram: StreamedGram, G: Array, points: Array, others: Array) -> Float64[Array, ""]:
    """The mean diagonal of what the landmarks leave of the matrix."""
    C = gram.exact(others, points)
    white = jsl.solve_triangular(jnp.linalg.cholesky(G), C.T, lower=True)
    own = jnp.mean(gram.diagonal)
    return jnp.maximum(own - jnp.sum(white**2) / len(others), 0.0)


@jax.jit(donate_argnums=1)
def _factor(
    G: Array, square: Array, mu: float | Array, eps: float | Array
) -> Float64[Array, "m m"]:
    # What rounding does to the sums, so that samples which are there twice leave a positive matrix.
    least = len(G) * jnp.finfo(G.dtype).eps * jnp.max(jnp.diagonal(square))
    # Rounding of C, which differs between its products, must not come out of the inverse magnified:
    # this matters where the kernel has a low rank, so that most directions are rounding alone.
    least = jnp.maximum(least, 25 * eps**2 * jnp.trace(square))
    return jnp.linalg.cholesky(mu * G + square + least * jnp.eye(len(G)))


@jax.jit
def _largest(square: Float64[Array, "m m"]) -> Float64[Array, ""]:
    """The largest eigenvalue of a matrix whose entries are mostly of one sign, from below."""

    def step(_: int | Array, v: Array) -> Array:
        return square @ v / jnp.linalg.norm(square @ v)

    v = jnp.where(jnp.arange(len(square)) % 3 == 0, 0.5, 1.0) * jnp.sqrt(jnp.diagonal(square))
    v = jax.lax.fori_loop(0, _POWERS, step, v / jnp.linalg.norm(v))
    return jnp.linalg.norm(square @ v)
