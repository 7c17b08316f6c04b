# SPDX-License-Identifier: Apache-2.0
"""The covariance of the tangent features over the whole sphere, exactly."""

import functools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64
from numpy.polynomial import chebyshev

from unlazy.activations import Activation
from unlazy.core.checks import check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.good_directions.twins import Fold, are_twins
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.special import funk_hecke, gegenbauer, harmonic_dimension

_ENTRIES = 2**21  # pairs of neurons at a time: 16 MB per array
_MOST_DEGREES = 80
_NEGLIGIBLE = 1e-9  # of a coefficient: it enters squared
_matmul = functools.partial(jnp.matmul, precision=jax.lax.Precision.HIGHEST)


class SphereCovariance(eqx.Module):
    r"""Second moments of the tangent features for inputs uniform on a sphere, pair by pair.

    $$\Sigma_{rq} = \frac{a_r a_q}{m} \mathbb E[\sigma'(w_{0,r}^\top x)\, \sigma'(w_{0,q}^\top x)\,
    x x^\top] = \frac{a_r a_q}{m}
    \big[A I + B (u u^\top + v v^\top) + C (u v^\top + v u^\top)\big]$$

    with u, v the directions of the two neurons and A, B, C functions of $u^\top v$, held as
    Chebyshev series. The coordinates are the differences of twins over $\sqrt2$ (all neurons where
    there are no twins), which carry every nonzero eigenvalue of $\Sigma$. Pairs are computed in
    blocks and never held all at once.

    Source: NB-12 and NB-13, arXiv:2206.03688.
    """

    units: Float64[np.ndarray, "h d"]  # directions of the distinct neurons
    amplitudes: Float64[np.ndarray, " h"]  # a, times the roots of all factors in front
    folding: Fold
    # Chebyshev coefficients of A, B, C. Static, so that no jit with x64 off rounds them: over all
    # pairs their errors add up.
    profile: tuple[tuple[float, ...], ...] = eqx.field(static=True)

    @entry
    def energy(self, W: Float[Array | np.ndarray, "m d"]) -> Float[Array, ""]:
        r"""The mean square of the linear term over the sphere, $\mathbb E f_L(x; W)^2$.

        The value and its gradient are computed in float64 and returned in the dtype of `W`: in the
        sum over all pairs much cancels.
        """
        W = jnp.asarray(W)
        return _energy(self, W if jnp.issubdtype(W.dtype, jnp.floating) else W.astype(float))

    @entry
    def applied(self, W: Float[Array, "m d"]) -> Float[Array, "m d"]:
        """The covariance times a movement, in the dtype of the movement."""
        return self.movement(self.product(self.coordinates(W)[None])[0])

    @entry
    def coordinates(self, W: Float[Array, "m d"]) -> Float[Array, "h d"]:
        """The coordinates of a movement: an isometry on what the linear term sees."""
        h, d = self.units.shape
        if W.shape != (h * self.folding.copies, d):
            raise ValueError(
                f"`W` must be a movement of the hidden layer, of shape "
                f"{(h * self.folding.copies, d)}, got W.shape={W.shape}."
            )
        return self.folding.fold(W) / math.sqrt(self.folding.copies)

    @entry
    def movement(self, u: Float[Array, "h d"]) -> Float[Array, "m d"]:
        """The smallest movement with these coordinates: the transpose of `coordinates`."""
        return self.folding.unfold(u / math.sqrt(self.folding.copies))

    @entry
    def product(self, u: Float[Array, "c h d"]) -> Float[Array, "c h d"]:
        """The covariance times each of c movements in coordinates, in their dtype."""
        h, d = self.units.shape
        size = min(h, max(1, _ENTRIES // h))
        count = -(-h // size)
        pad = count * size - h
        rows = jnp.pad(jnp.asarray(self.units, u.dtype), ((0, pad), (0, 0))).reshape(count, size, d)
        amplitudes = jnp.pad(jnp.asarray(self.amplitudes, u.dtype), (0, pad)).reshape(count, size)
        # Differentiated, a block is computed again: else all pairs would be kept.
        block = jax.checkpoint(lambda part: self._block(part[0], part[1], u))
        parts = jax.lax.map(block, (rows, amplitudes))
        return jnp.moveaxis(parts, 1, 0).reshape(len(u), count * size, d)[:, :h]

    def dense(self) -> Float64[Array, "p p"]:
        """The whole matrix in these coordinates, p = h d, with a neuron's d entries in a row."""
        with float64():
            return _dense(self)

    def trace(self) -> float:
        """The sum of its eigenvalues."""
        A, B, C = np.sum(self.profile, axis=1)  # at 1, where every Chebyshev polynomial is 1
        return float(np.sum(self.amplitudes**2) * (self.units.shape[1] * A + 2 * B + 2 * C))

    def _block(self, rows, amplitudes, u):
        units = jnp.asarray(self.units, u.dtype)
        rho = _matmul(rows, units.T)
        signs = amplitudes[:, None] * jnp.asarray(self.amplitudes, u.dtype)[None, :]
        A, B, C = (signs * value for value in _clenshaw(self.profile, rho))

        def one(D):
            G, g = _matmul(rows, D.T), jnp.sum(units * D, axis=1)
            along = jnp.sum(B * G, axis=1) + _matmul(C, g)
            return _matmul(A, D) + along[:, None] * rows + _matmul(B * g[None, :] + C * G, units)

        return jax.lax.map(one, u)


@entry
def sphere_covariance(
    net: TwoLayer, params: TwoLayerParams, *, radius: int | float | None = None
) -> SphereCovariance:
    r"""The covariance of the tangent features of the hidden layer, by Gegenbauer expansion.

    With $\hat c_l$ the normalised coefficients (`special.gegenbauer_coefficients`) and
    $G_{jk} = \sum_l \hat c_l(z^j \sigma') \hat c_l(z^k \sigma') P_l(\rho)$,

    $$Q_\pm = \frac{G_{20} \pm G_{11}}{1 \pm \rho}, \quad A = \frac{d G_{00} - Q_+ - Q_-}{d - 2},
    \quad B \pm C = \frac{Q_\pm - A}{1 \pm \rho}$$

    which is NB-12 rearranged so that no quotient is worse than 0/0 at $\rho = \pm 1$. All are
    polynomials, evaluated at Chebyshev points inside, so that no limit need be taken.

    Source: NB-12, arXiv:2206.03688.

    Args:
        net: a two-layer network with a smooth activation and at least 3 inputs.
        params: with hidden weights of one norm, as init="sphere" draws them.
        radius: of the sphere of inputs; the root of d when None.

    Example:
        >>> import jax, unlazy as ul
        >>> net = TwoLayer(4, 6, ul.activation("sigmoid", shift=1.5), init="sphere")
        >>> covariance = sphere_covariance(net, net.init(key=jax.random.key(0)))
        >>> print(f"{covariance.trace():.4f}")  # d E s'^2
        0.1105
    """
    d = net.inputs
    if d < 3:
        raise ValueError(f"`net` must have at least 3 inputs here, got inputs={d}.")
    norms = np.linalg.norm(np.asarray(params.W, np.float64), axis=1)
    if norms.max() - norms.min() > 1e-4 * norms.max():
        raise ValueError(
            "`params` must have hidden weights of one norm for the exact covariance, got norms "
            f"from {norms.min():.4g} to {norms.max():.4g}. Use init='sphere', or "
            "covariance='unlabelled'."
        )
    if radius is not None:
        check_positive(radius, "radius")
    radius = math.sqrt(d) if radius is None else float(radius)
    folding = Fold(are_twins(params))
    half = folding.distinct(params)
    units = np.asarray(half.W, np.float64)
    units = units / np.linalg.norm(units, axis=1, keepdims=True)
    scale = math.sqrt(folding.copies / net.width) * radius
    profile = _profile(net.activation, d, radius * float(norms.mean()))
    return SphereCovariance(units, scale * np.asarray(half.a, np.float64), folding, profile)


def _profile(sigma: Activation, d: int, scale: float) -> tuple[tuple[float, ...], ...]:
    """Chebyshev coefficients of A, B and C for inputs of norm 1."""
    slope, degrees = sigma.derivative(1), range(_MOST_DEGREES + 1)
    weighted = [lambda z, j=j: slope(z) * (z / scale) ** j for j in range(3)]
    c = np.stack([funk_hecke(f, d, _MOST_DEGREES, scale=scale) for f in weighted])
    c = c * np.sqrt([float(harmonic_dimension(d, l)) for l in degrees])
    large = np.flatnonzero(np.abs(c[0]) > _NEGLIGIBLE * np.linalg.norm(c[0]))
    degree = int(large[-1]) + 2  # the factors z^j mix in the neighbours
    if degree > _MOST_DEGREES - 4:
        raise ValueError(
            "`net.activation` must be smooth for the exact covariance, got one whose expansion in "
            f"{d} dimensions does not end by degree {_MOST_DEGREES}: {sigma.name}. "
            "Use covariance='unlabelled'."
        )

    rho = chebyshev.chebpts1(degree + 3)
    P = gegenbauer(rho, d, degree)
    G00, G20, G11 = ((c[i] * c[j])[: degree + 1] @ P for i, j in ((0, 0), (2, 0), (1, 1)))
    plus, minus = (G20 + G11) / (1 + rho), (G20 - G11) / (1 - rho)
    A = (G00 - plus - minus) / (d - 2)
    total, difference = (plus - A) / (1 + rho), (minus - A) / (1 - rho)
    values = np.stack([A, (total + difference) / 2, (total - difference) / 2])
    # The interpolating polynomial, by the discrete orthogonality of the T_l at these points.
    series = values @ chebyshev.chebvander(rho, degree + 2) * (2 / len(rho))
    series[:, 0] /= 2
    return tuple(map(tuple, series.tolist()))


# Custom rules, because JAX cannot transpose a float64 computation outside its scope: the gradient
# is again computed in float64, its own derivative in the dtype of the movement.
@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _applied(covariance: SphereCovariance, W: Float[Array, "m d"]) -> Float[Array, "m d"]:
    with float64():
        return covariance.applied(W.astype(jnp.float64)).astype(W.dtype)


@_applied.defjvp
def _applied_jvp(covariance: SphereCovariance, primals, tangents):
    return _applied(covariance, *primals), covariance.applied(*tangents)


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def _energy(covariance: SphereCovariance, W: Float[Array, "m d"]) -> Float[Array, ""]:
    return _inner(W, _applied(covariance, W))


@_energy.defjvp
def _energy_jvp(covariance: SphereCovariance, primals, tangents):
    (W,), (dW,) = primals, tangents
    image = _applied(covariance, W)
    return _inner(W, image), 2 * jnp.sum(image * dW)


def _inner(W: Float[Array, "m d"], V: Float[Array, "m d"]) -> Float[Array, ""]:
    with float64():
        return jnp.sum(W.astype(jnp.float64) * V.astype(jnp.float64)).astype(W.dtype)


def _clenshaw(series: tuple[tuple[float, ...], ...], t: Float[Array, "b h"]) -> list[Array]:
    """Each Chebyshev series at `t`: a chain of elementwise operations, which fuses."""
    results = []
    for coefficients in series:
        ahead, behind = jnp.zeros_like(t), jnp.zeros_like(t)
        for coefficient in coefficients[:0:-1]:
            ahead, behind = 2 * t * ahead - behind + coefficient, ahead
        results.append(t * ahead - behind + coefficients[0])
    return results


@eqx.filter_jit
def _dense(covariance: SphereCovariance) -> Float64[Array, "p p"]:
    u = jnp.asarray(covariance.units, jnp.float64)
    a = jnp.asarray(covariance.amplitudes, jnp.float64)
    h, d = u.shape
    signs = a[:, None] * a[None, :]
    A, B, C = (signs * value for value in _clenshaw(covariance.profile, _matmul(u, u.T)))
    own = jnp.einsum("rq,ri,rj->riqj", B, u, u) + jnp.einsum("rq,qi,qj->riqj", B, u, u)
    mixed = jnp.einsum("rq,ri,qj->riqj", C, u, u) + jnp.einsum("rq,qi,rj->riqj", C, u, u)
    same = A[:, None, :, None] * jnp.eye(d)[None, :, None, :]
    return (same + own + mixed).reshape(h * d, h * d)
