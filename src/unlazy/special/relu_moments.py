# SPDX-License-Identifier: Apache-2.0
"""The two arc-cosine functions behind every ReLU kernel, without loss where the angle is small."""

import math
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.entries import entry
from unlazy.special.orthant import _horner


class ArcCosine(NamedTuple):
    """What `arc_cosine` returns, each of the shape of its arguments."""

    orthant: Float[Array, "*shape"]  # P(u >= 0, v >= 0), from 0 to 1/2
    cos: Float[Array, "*shape"]  # 2 E[relu(u) relu(v)], from 0 to 1: the next correlation
    gap: Float[Array, "*shape"]  # 1 - cos, to full relative precision


@entry
def arc_cosine(c: Float[Array, "*shape"], gap: Float[Array, "*shape"]) -> ArcCosine:
    r"""Moments of the ReLU of two standard Gaussians whose correlation is $c = \cos\theta$.

    $$p = \frac{\pi - \theta}{2\pi}, \qquad
    \kappa_1 = \frac{\sin\theta + (\pi - \theta)\cos\theta}{\pi}$$

    The correlation comes with `gap` $= 1 - |c|$, which carries the angle where `c` itself no longer
    does: an absolute error of eps in `c` is one of eps/θ in the angle. The angle of the result,
    $\arccos\kappa_1$, is then as accurate as that of the argument, layer after layer.

    Source: RN-17 (k0 = 2p, k1), arXiv:1905.10337; p is AR-6's, arXiv:1901.08584.

    Args:
        c: correlations; only their sign is used.
        gap: 1 - |c|, from 0 to 1.

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


def _safe_sqrt(gap: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    # The inner where keeps the infinite slope at 0 out of automatic differentiation.
    positive = gap > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, gap, 1)), 0)
