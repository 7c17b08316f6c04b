# SPDX-License-Identifier: Apache-2.0
"""Duals of activations with a kink or a jump at 0, in closed form."""

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.kernels.moments import PairMoments, Row, RowMoments, sine
from unlazy.special import arc_cosine


@dataclass(frozen=True)
class TwoSlopesDual:
    r"""The dual of $\phi(z) = a \min(z, 0) + b \max(z, 0)$, of abs and of leaky ReLUs.

    With $p = (a+b)^2/4$ and $q = (b-a)^2/4$, the squares of the two parts of
    $\phi(z) = \frac{a+b}{2} z + \frac{b-a}{2} |z|$, and $t$ the acute angle between the Gaussians,

    $$E[\phi(u)\phi(v)] = s_1 s_2 \Big(p c + q \big(|c| + \tfrac2\pi (\sin t - t \cos t)\big)\Big),
    \qquad E[\phi'(u)\phi'(v)] = p + q\, \tfrac2\pi \arcsin c$$

    Source: RN-17's k0 and k1 (arXiv:1905.10337), summed over the signs of u and v.
    """

    below: float
    above: float

    @property
    def _squares(self) -> tuple[float, float]:
        return (self.below + self.above) ** 2 / 4, (self.above - self.below) ** 2 / 4

    def rows(self, s: Float[Array, " n"]) -> RowMoments:
        """The moments of each row, of standard deviation `s`."""
        mean_square = (self.below**2 + self.above**2) / 2
        return RowMoments(s * math.sqrt(mean_square), jnp.full_like(s, mean_square))

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], r1: Row, r2: Row
    ) -> PairMoments:
        """The moments of each pair of rows, of correlation `cos`."""
        del r1, r2
        linear, even = self._squares
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
class JumpDual:
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

    def rows(self, s: Float[Array, " n"]) -> RowMoments:
        """The moments of each row, of standard deviation `s`."""
        rms = 1.0 if self.odd else math.sqrt(0.5)
        return RowMoments(jnp.full_like(s, rms), jnp.full_like(s, math.inf))

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], r1: Row, r2: Row
    ) -> PairMoments:
        """The moments of each pair of rows, of correlation `cos`."""
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
class RectifiedPowerDual:
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

    def rows(self, s: Float[Array, " n"]) -> RowMoments:
        """The moments of each row, of standard deviation `s`."""
        k = self.power
        rms = self.scale * math.sqrt(_odd_factorial(k) / 2)
        slope = (self.scale * k) ** 2 * _odd_factorial(k - 1) / 2
        return RowMoments(rms * s**k, slope * s ** (2 * k - 2))

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], r1: Row, r2: Row
    ) -> PairMoments:
        """The moments of each pair of rows, of correlation `cos`."""
        sin, supplement = sine(gap), 2 * math.pi * arc_cosine(cos, gap).orthant  # pi - theta
        # Their slopes in the correlation are bounded, so that its rounding does no harm: the gap
        # needs no digits of its own.
        rho = jnp.clip(_normalised(self.power, cos, sin, supplement), -1, 1)
        below = _normalised(self.power - 1, cos, sin, supplement)
        size = (self.scale * self.power) ** 2 * _odd_factorial(self.power - 1) / 2
        slope = size * below * (r1.s * r2.s) ** (self.power - 1)
        return PairMoments(rho, 1 - jnp.abs(rho), slope)


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
