# SPDX-License-Identifier: Apache-2.0
r"""What a dual activation gives: the moments of an activation at one and at two Gaussians.

For $(u, v)$ Gaussian with standard deviations $s_1, s_2$ and correlation $c$ these are
$E[\phi(u)\phi(v)]$ and $E[\phi'(u)\phi'(v)]$. Correlations travel as a pair, `cos` and `gap` =
1 - |cos|, since the angle of nearly parallel rows survives only in the latter.
"""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float


class RowMoments(NamedTuple):
    """Moments of one Gaussian per row."""

    rms: Float[Array, "*rows"]  # sqrt(E phi(u)^2)
    slope_square: Float[Array, "*rows"]  # E phi'(u)^2
    features: Any = ()  # what else `pairs` needs per row: arrays whose last axis is n


class PairMoments(NamedTuple):
    """Moments of two Gaussians."""

    cos: Float[Array, "*shape"]  # E[phi(u) phi(v)] / (rms_u rms_v)
    gap: Float[Array, "*shape"]  # 1 - |cos|
    slope: Float[Array, "*shape"]  # E[phi'(u) phi'(v)]


class Row(NamedTuple):
    """A row's standard deviation and moments, of any shape that broadcasts to the pairs'."""

    s: Float[Array, "..."]
    moments: RowMoments


@runtime_checkable
class Dual(Protocol):
    """The moments of one activation: a frozen dataclass, being part of a static argument."""

    def rows(self, s: Float[Array, " n"]) -> RowMoments:
        """The moments of each row, of standard deviation `s`."""
        ...

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], r1: Row, r2: Row
    ) -> PairMoments:
        """The moments of each pair of rows, of correlation `cos`."""
        ...


def sine(gap: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The sine of the angle whose cosine has that `gap`; its slope at 0, infinite, counts as 0."""
    return safe_sqrt(gap * (2 - gap))


def safe_sqrt(value: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """The root of what is positive, else 0, with slope 0 there."""
    # The inner where keeps the infinite slope at 0 out of automatic differentiation.
    positive = value > 0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, value, 1)), 0)
