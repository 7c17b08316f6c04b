# SPDX-License-Identifier: Apache-2.0
"""Dual activations in closed form, and which activation has which dual."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.activations import Activation, activation
from unlazy.kernels.moments import Dual, PairMoments, Row, RowMoments
from unlazy.kernels.rectified import JumpDual, RectifiedPowerDual, TwoSlopesDual
from unlazy.kernels.series import SeriesDual
from unlazy.special import arc_cosine

ActivationLike = str | Activation | Callable[[Array], Array]


def dual_of(phi: ActivationLike) -> Dual:
    """The dual of an activation: in closed form where there is one, else as a Hermite series."""
    if isinstance(phi, str):
        with jax.ensure_compile_time_eval():  # its checks look at values, also under jax.jit
            phi = activation(phi)
    phi = _recognised(phi)
    if isinstance(phi, Activation) and phi.shift == 0 and phi.name in _CLOSED:
        return _CLOSED[phi.name](*phi.coefficients)
    return SeriesDual(phi)


def _recognised(phi: Activation | Callable[[Array], Array]) -> Activation | Callable:
    """The `Activation` that a function of JAX with a kink or a jump at 0 is, else `phi` itself."""
    if any(phi is known for known in (abs, jnp.abs, jnp.absolute, jnp.fabs)):
        return Activation("abs")
    if phi is jnp.sign:
        return Activation("sign")
    if phi is jax.nn.relu:
        return Activation("relu")
    if phi is jax.nn.leaky_relu:
        return Activation("leaky_relu", coefficients=(0.01, 1.0))
    if isinstance(phi, partial) and phi.func is jax.nn.leaky_relu and not phi.args:
        options = dict(phi.keywords)
        slope = options.pop("negative_slope", 0.01)
        if not options and isinstance(slope, int | float | np.number):
            return Activation("leaky_relu", coefficients=(float(slope), 1.0))
    return phi


@dataclass(frozen=True)
class _IdentityDual:
    """A linear network."""

    def rows(self, s):
        return RowMoments(s, jnp.ones_like(s))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        del r1, r2
        return PairMoments(cos, gap, jnp.ones_like(cos))


@dataclass(frozen=True)
class _ReluDual:
    """Arc-cosine kernels of orders 0 and 1, RN-17."""

    def rows(self, s):
        return RowMoments(s * math.sqrt(0.5), jnp.full_like(s, 0.5))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        del r1, r2
        moments = arc_cosine(cos, gap)
        return PairMoments(moments.cos, moments.gap, moments.orthant)


@dataclass(frozen=True)
class _ErfDual:
    r"""$E[\mathrm{erf}(u)\mathrm{erf}(v)] = (2/\pi) \arcsin(2 C / (t_1 t_2))$, $t^2 = 1 + 2s^2$."""

    def rows(self, s):
        t = jnp.sqrt(0.5 + s**2) * math.sqrt(2)
        sin, cos = math.sqrt(2) * s / t, 1 / t
        # arcsin(sin^2), with 1 - sin^4 = cos^2 (1 + sin^2) lest it cancel for large s.
        square = 2 / math.pi * jnp.arctan2(sin**2, cos * jnp.sqrt(1 + sin**2))
        slope_square = 4 / math.pi / (t * jnp.sqrt(1 + sin**2))
        return RowMoments(jnp.sqrt(square), slope_square, (sin, cos**2, t))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        (sin1, square1, t1), (sin2, square2, t2) = r1.moments.features, r2.moments.features
        both = sin1 * sin2
        # 1 - |argument|, from what is small in it; squared by row, so that the sum commutes.
        rest = ((sin1 - sin2) ** 2 + (square1 + square2)) / 2 + both * gap
        root = jnp.sqrt(rest * (2 - rest))
        value = 2 / math.pi * jnp.arctan2(both * cos, root)
        rms = r1.moments.rms * r2.moments.rms
        return _bounded(value / jnp.where(rms > 0, rms, 1), 4 / math.pi / ((t1 * t2) * root))


@dataclass(frozen=True)
class _SinDual:
    r"""$E[\sin u \sin v] = (e^{-V_-/2} - e^{-V_+/2})/2$ with $V_\pm$ the variance of $u \pm v$."""

    def rows(self, s):
        odd, even = _sine_squares(s)
        return RowMoments(jnp.sqrt(odd), even)

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        odd, even = _sine_products(cos, gap, r1.s, r2.s)
        rms = r1.moments.rms * r2.moments.rms
        return _bounded(odd / jnp.where(rms > 0, rms, 1), even)


@dataclass(frozen=True)
class _CosDual:
    """As the sine's, with the two moments exchanged."""

    def rows(self, s):
        odd, even = _sine_squares(s)
        return RowMoments(jnp.sqrt(even), odd)

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        odd, even = _sine_products(cos, gap, r1.s, r2.s)
        return _bounded(even / (r1.moments.rms * r2.moments.rms), odd)


@dataclass(frozen=True)
class _ExpDual:
    r"""$E[e^u e^v] = e^{V_+/2}$, whose correlation is $e^{-V_-/2}$."""

    def rows(self, s):
        return RowMoments(jnp.exp(s**2), jnp.exp(2 * s**2))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        apart, _ = _variances(cos, gap, r1.s, r2.s)
        rho = jnp.exp(-apart / 2)
        return PairMoments(rho, -jnp.expm1(-apart / 2), rho * (r1.moments.rms * r2.moments.rms))


def _rectified_power(power: float) -> Dual:
    if power >= 2:
        return RectifiedPowerDual(int(power))
    return _ReluDual() if power == 1 else JumpDual(odd=False)


_CLOSED: dict[str, Callable[..., Dual]] = {
    "identity": _IdentityDual,
    "relu": _ReluDual,
    "relu3": partial(RectifiedPowerDual, 3, 1 / 6),
    "abs": partial(TwoSlopesDual, -1.0, 1.0),
    "leaky_relu": TwoSlopesDual,
    "abrelu": TwoSlopesDual,
    "sign": partial(JumpDual, odd=True),
    "rectified_power": _rectified_power,
    "erf": _ErfDual,
    "sin": _SinDual,
    "cos": _CosDual,
    "exp": _ExpDual,
}


def _bounded(cos: Float[Array, "*shape"], slope: Float[Array, "*shape"]) -> PairMoments:
    cos = jnp.clip(cos, -1, 1)
    return PairMoments(cos, 1 - jnp.abs(cos), slope)


def _variances(cos, gap, s1, s2):
    """Of u - v and of u + v, each from what is small in it."""
    one_minus = jnp.where(cos < 0, 2 - gap, gap)
    base, product = (s1 - s2) ** 2, 2 * (s1 * s2)
    return base + product * one_minus, base + product * (2 - one_minus)


def _sine_squares(s):
    return -jnp.expm1(-2 * s**2) / 2, (1 + jnp.exp(-2 * s**2)) / 2


def _sine_products(cos, gap, s1, s2):
    apart, along = _variances(cos, gap, s1, s2)
    less = jnp.exp(-jnp.minimum(apart, along) / 2)
    ratio = -2 * jnp.abs((s1 * s2) * cos)  # log of the smaller over the larger exponential
    return -jnp.sign(cos) * less * jnp.expm1(ratio) / 2, less * (1 + jnp.exp(ratio)) / 2
