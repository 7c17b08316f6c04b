# SPDX-License-Identifier: Apache-2.0
"""Moments of the ReLU of two correlated Gaussians: the functions behind every ReLU kernel."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.checks import check_real
from unlazy.core.entries import entry

# Minimax polynomials in t = 2a - 1 for arccos(a) / (2 pi sqrt(1 - a)) on 0 <= a <= 1, lowest degree
# first, from a Remez exchange in 50 digits. The quotient is analytic there (its nearest singularity
# is t = -3), so a degree buys a factor 5.8; centred at t = 0 the coefficients fall like 3^-k and
# Horner's rule loses nothing. Relative error: 2.1e-9 (degree 8), 1.6e-17 (degree 18), each well
# below half a unit in the last place of its dtype.
_SINGLE = (
    0.23570226051348898564,
    -0.012098332359475484351,
    0.0017553647212874336368,
    -0.00034210231732782616227,
    0.000076756444974113067063,
    -0.000018487102423272948987,
    4.7169300161030860851e-6,
    -1.5382010780966373675e-6,
    4.4088364044818680959e-7,
)
_DOUBLE = (
    0.23570226039551584051,
    -0.012098336674521497548,
    0.0017553697334657149515,
    -0.00034204559533416176182,
    0.000076721292940309669747,
    -0.000018686780487429140571,
    4.8044373648055963212e-6,
    -1.2833516257316802857e-6,
    3.5269027880733468558e-7,
    -9.908154420807596319e-8,
    2.8325979376388730153e-8,
    -8.207677625499245202e-9,
    2.4072213808397096679e-9,
    -7.2312846628898298475e-10,
    2.1730264677224044545e-10,
    -5.656507203294639714e-11,
    1.6529663898416492731e-11,
    -9.4775455884030698795e-12,
    3.0397125376386854232e-12,
)


@entry
def orthant_probability(c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    r"""Probability that two standard Gaussians of correlation `c` are both positive.

    $$p(c) = \frac{\pi - \arccos c}{2\pi} = \frac14 + \frac{\arcsin c}{2\pi}$$

    Computed from a minimax polynomial, because XLA's arccos costs more on a CPU than the matrix
    product that the correlations come from. Absolute error at most 1 unit in the last place of
    one half (float64: 1.2e-16, float32: 6e-8), relative error at most 4 eps down to c = -1.

    Correlations that rounding took outside of [-1, 1] are clipped. The derivative, infinite at
    both ends, is set to 0 there, so that a Gram matrix can be differentiated (AR-101).

    Source: AR-6 and AR-20 (p_ij), arXiv:1901.08584 eq. (3).

    Example:
        >>> print(orthant_probability(jnp.array([-1.0, 0.0, 1.0])))
        [0.   0.25 0.5 ]
    """
    check_real(c, "c")
    return _probability(jnp.asarray(c))


class ArcCosine(NamedTuple):
    """Moments of the ReLU of two standard Gaussians u and v."""

    orthant: Float[Array, "*shape"]  # P(u >= 0, v >= 0), from 0 to 1/2
    cos: Float[Array, "*shape"]  # 2 E[relu(u) relu(v)], from 0 to 1: the next correlation
    gap: Float[Array, "*shape"]  # 1 - cos, to full relative precision


@entry
def arc_cosine(c: Float[Array, "*shape"], gap: Float[Array, "*shape"]) -> ArcCosine:
    r"""Moments of the ReLU of two standard Gaussians whose correlation is $c = \cos\theta$.

    $$p = \frac{\pi - \theta}{2\pi}, \qquad
    \kappa_1 = \frac{\sin\theta + (\pi - \theta)\cos\theta}{\pi}$$

    The correlation comes with `gap` $= 1 - |c|$, which carries the angle where `c` itself no longer
    does: an absolute error of eps in `c` is one of eps/θ in the angle. Only the sign of `c` is
    used. The angle of the result, $\arccos\kappa_1$, is then as accurate as that of the argument,
    layer after layer.

    Source: RN-17 (k0 = 2p, k1), arXiv:1905.10337; p is AR-6's, arXiv:1901.08584.

    Example:
        >>> print(arc_cosine(jnp.zeros(1), jnp.ones(1)).orthant)
        [0.25]
    """
    a = 1 - gap
    root = _safe_sqrt(gap)
    quotient = _horner(2 * a - 1)  # arccos(a) / (2 pi sqrt(1 - a))
    acute = root * quotient
    # (sin t - t cos t)/pi for the acute angle t. It is gap^(3/2) times a factor between 0.3001
    # and 1/pi; the difference below loses that factor to rounding once the gap is tiny.
    rest = root * (jnp.sqrt(2 - gap) - 2 * math.pi * a * quotient) / math.pi
    rest = jnp.clip(rest, 0.3 * gap * root, 0.319 * gap * root)
    obtuse = c < 0
    return ArcCosine(
        jnp.where(obtuse, acute, 0.5 - acute),
        jnp.where(obtuse, rest, a + rest),
        jnp.where(obtuse, 1 - rest, gap - rest),
    )


@jax.custom_jvp
def _probability(c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    a = jnp.minimum(jnp.abs(c), jnp.ones((), c.dtype))
    # 1 - a is exact for a >= 1/2, so nothing is lost where the angle is small.
    acute = jnp.sqrt(1 - a) * _horner(2 * a - 1)
    return jnp.where(c < 0, acute, 0.5 - acute)


@_probability.defjvp
def _probability_jvp(primals, tangents):
    (c,), (dc,) = primals, tangents
    inside = jnp.abs(c) < 1
    # The inner where keeps the infinite slope out of the product, where 0 * inf would be nan.
    slope = 1 / (2 * math.pi * jnp.sqrt(1 - jnp.where(inside, c, 0) ** 2))
    return orthant_probability(c), jnp.where(inside, slope, 0) * dc


def _horner(t: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    coefficients = _DOUBLE if t.dtype == jnp.float64 else _SINGLE
    value = jnp.full_like(t, coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        value = value * t + coefficient
    return value


def _safe_sqrt(gap: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    # The inner where keeps the infinite slope at 0 out of automatic differentiation.
    positive = gap > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, gap, 1)), 0)
