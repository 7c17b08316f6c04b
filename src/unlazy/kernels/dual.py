# SPDX-License-Identifier: Apache-2.0
"""Dual activations in closed form, and which activation has which dual."""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.activations import Activation, activation, activation_names
from unlazy.core.checks import check_name
from unlazy.core.current import current
from unlazy.core.float64 import float64
from unlazy.kernels.moments import Dual, PairMoments, Row, RowMoments, sine
from unlazy.kernels.series import SeriesDual
from unlazy.special import arc_cosine

ActivationLike = str | Activation | Callable[[Array], Array]


_NEEDS_VALUES = (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError)


def dual_of(phi: ActivationLike) -> Dual:
    """The dual of an activation: in closed form where there is one, else as a Hermite series."""
    if isinstance(phi, str):
        check_name(phi, activation_names(), "activation")
        with jax.ensure_compile_time_eval():  # its checks look at values, also under jax.jit
            phi = activation(phi)
    phi = _recognised(phi)
    if isinstance(phi, Activation) and phi.shift == 0 and phi.name in _CLOSED:
        return _CLOSED[phi.name](*phi.coefficients)
    if isinstance(phi, Activation):
        return SeriesDual(phi)
    with float64():
        _check_traceable(phi)
        return SeriesDual(current(phi, jax.ShapeDtypeStruct((2,), np.float64)))


def _check_traceable(phi: Callable[[Array], Array]) -> None:
    try:
        jax.eval_shape(lambda z: phi(z), jax.ShapeDtypeStruct((2,), np.float64))
    except (*_NEEDS_VALUES, ValueError) as error:
        if isinstance(error, ValueError) and "truth value" not in str(error):
            raise
        name = getattr(phi, "__name__", type(phi).__name__)
        raise TypeError(
            "`activation` must be written in jax.numpy, for all entries of an array at once, got "
            f"{name}, which needs their values: NumPy's functions and `if` do. Use jax.numpy.tanh "
            "in place of numpy.tanh, and jax.numpy.where in place of `if`."
        ) from error


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


@dataclass(frozen=True)
class _TwoSlopesDual:
    r"""The dual of $\phi(z) = a \min(z, 0) + b \max(z, 0)$, of abs and of leaky ReLUs.

    With $p = (a+b)^2/4$ and $q = (b-a)^2/4$, the squares of the two parts of
    $\phi(z) = \frac{a+b}{2} z + \frac{b-a}{2} |z|$, and $t$ the acute angle between the Gaussians,

    $$E[\phi(u)\phi(v)] = s_1 s_2 \Big(p c + q \big(|c| + \tfrac2\pi (\sin t - t \cos t)\big)\Big),
    \qquad E[\phi'(u)\phi'(v)] = p + q\, \tfrac2\pi \arcsin c$$

    Source: RN-17's k0 and k1 (arXiv:1905.10337), summed over the signs of u and v.
    """

    below: float
    above: float

    def rows(self, s):
        mean_square = (self.below**2 + self.above**2) / 2
        return RowMoments(s * math.sqrt(mean_square), jnp.full_like(s, mean_square))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        del r1, r2
        linear, even = (self.below + self.above) ** 2 / 4, (self.above - self.below) ** 2 / 4
        p, q = linear / (linear + even), even / (linear + even)
        acute, obtuse = arc_cosine(jnp.ones_like(cos), gap), cos < 0
        both_signs = 4 * acute.orthant - 1  # E[sign u sign v] at the acute angle
        slope = linear + even * jnp.where(obtuse, -both_signs, both_signs)
        apart = 2 * acute.gap - gap  # 1 - E|u||v|
        # 1 -+ the new correlation, each from what is small in it; the smaller is its gap.
        minus = p * jnp.where(obtuse, 2 - gap, gap) + q * apart
        plus = p * jnp.where(obtuse, gap, 2 - gap) + q * (2 - apart)
        rho = jnp.where(minus <= plus, 1 - minus, plus - 1)
        return PairMoments(rho, jnp.minimum(minus, plus), slope)


@dataclass(frozen=True)
class _JumpDual:
    r"""The dual of the sign, or of the step $1\{z \ge 0\}$, which have no mean-square slope.

    $$E[\mathrm{sign}(u)\, \mathrm{sign}(v)] = \tfrac2\pi \arcsin c, \qquad
    E[1\{u \ge 0\} 1\{v \ge 0\}] = \frac{\pi - \theta}{2\pi}$$

    Their derivatives are multiples of Dirac's delta, whose product has expectation
    $1/(2\pi s_1 s_2 \sin\theta)$, infinite for parallel rows: no tangent kernel has finite entries
    on its diagonal. `ntk` refuses them but for the readout alone.

    Source: RN-17's k0, arXiv:1905.10337.
    """

    odd: bool  # the sign; else the step

    has_slope = False

    def rows(self, s):
        rms = 1.0 if self.odd else math.sqrt(0.5)
        return RowMoments(jnp.full_like(s, rms), jnp.full_like(s, math.inf))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        del r1, r2
        acute = arc_cosine(-jnp.ones_like(cos), gap).orthant  # the acute angle over 2 pi
        obtuse = cos < 0
        if self.odd:
            size = 4 * acute
            rho, rest = jnp.where(obtuse, size - 1, 1 - size), size
        else:
            rho = jnp.where(obtuse, 2 * acute, 1 - 2 * acute)
            rest = jnp.where(obtuse, 1 - 2 * acute, 2 * acute)
        return PairMoments(rho, rest, jnp.full_like(cos, math.inf))


@dataclass(frozen=True)
class _RectifiedPowerDual:
    r"""The dual of $\phi(z) = a \max(z, 0)^k$ for k >= 2: arc-cosine kernels of orders k, k - 1.

    $$E[u_+^k v_+^k] = (s_1 s_2)^k M_k(c), \qquad
    M_k = \frac{\sin\theta\, P_k(c) + (\pi - \theta)\, Q_k(c)}{2\pi}, \qquad M_k' = k^2 M_{k-1}$$

    with the polynomials of `_polynomials`; $M_k(1) = (2k-1)!!/2$. Errors are of the order of
    rounding relative to the diagonal.

    Source: Cho and Saul, "Kernel methods for deep learning" (2009); the recursion is Price's
    theorem. BL-16, arXiv:1910.01619, has k = 1 and 2.
    """

    power: int
    scale: float = 1.0

    def rows(self, s):
        k = self.power
        rms = self.scale * math.sqrt(_odd_factorial(k) / 2)
        slope = (self.scale * k) ** 2 * _odd_factorial(k - 1) / 2
        return RowMoments(rms * s**k, slope * s ** (2 * k - 2))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        sin, supplement = sine(gap), 2 * math.pi * arc_cosine(cos, gap).orthant  # pi - theta
        # Their slopes in the correlation are bounded, so that its rounding does no harm: the gap
        # needs no digits of its own.
        rho = jnp.clip(_normalised(self.power, cos, sin, supplement), -1, 1)
        below = _normalised(self.power - 1, cos, sin, supplement)
        size = (self.scale * self.power) ** 2 * _odd_factorial(self.power - 1) / 2
        slope = size * below * (r1.s * r2.s) ** (self.power - 1)
        return PairMoments(rho, 1 - jnp.abs(rho), slope)


def _rectified_power(power: float) -> Dual:
    if power >= 2:
        return _RectifiedPowerDual(int(power))
    return _ReluDual() if power == 1 else _JumpDual(odd=False)


_CLOSED: dict[str, Callable[..., Dual]] = {
    "identity": _IdentityDual,
    "relu": _ReluDual,
    "relu3": partial(_RectifiedPowerDual, 3, 1 / 6),
    "abs": partial(_TwoSlopesDual, -1.0, 1.0),
    "leaky_relu": _TwoSlopesDual,
    "abrelu": _TwoSlopesDual,
    "sign": partial(_JumpDual, odd=True),
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


def _normalised(k: int, cos, sin, supplement) -> Float[Array, "*shape"]:
    """M_k over its value at 1."""
    with_sine, with_angle = _polynomials(k)
    total = sin * _horner(with_sine, cos) + supplement * _horner(with_angle, cos)
    return total / math.pi


@functools.cache
def _polynomials(k: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Coefficients of P_k and Q_k over (2k-1)!!, lowest degree first, from exact fractions."""
    P, Q = [Fraction(0)], [Fraction(1)]
    for order in range(1, k + 1):
        square = order**2
        # Q' = k^2 Q_(k-1) and Q(1) = (2k-1)!!; Q is odd or even, as its order is.
        Q = [Fraction(0)] + [Fraction(square) * c / (j + 1) for j, c in enumerate(Q)]
        Q[0] += 0 if order % 2 else _odd_factorial(order) - sum(Q)
        # (1 - c^2) P' - c P = k^2 (1 - c^2) P_(k-1) - Q, solved from the highest degree down.
        before = [*P, *[Fraction(0)] * (order + 3 - len(P))]
        right = [
            square * (before[j] - (before[j - 2] if j >= 2 else 0)) - (Q[j] if j <= order else 0)
            for j in range(order + 1)
        ]
        P = [Fraction(0)] * (order + 2)
        for j in range(order, 0, -1):
            P[j - 1] = ((j + 1) * P[j + 1] - right[j]) / j if j + 1 < len(P) else -right[j] / j
        P = P[:order]
    top = _odd_factorial(k)
    return tuple(float(c / top) for c in P), tuple(float(c / top) for c in Q)


def _odd_factorial(k: int) -> int:
    """(2k - 1)!!, the 2k-th moment of a standard Gaussian."""
    return math.prod(range(2 * k - 1, 0, -2))


def _horner(coefficients: tuple[float, ...], c: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """A polynomial that is even or odd, in powers of the square."""
    is_odd = len(coefficients) % 2 == 0
    first, *others = coefficients[::-2]
    value, square = jnp.full_like(c, first), c * c
    for coefficient in others:
        value = value * square + coefficient
    return value * c if is_odd else value
