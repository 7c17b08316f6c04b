# SPDX-License-Identifier: Apache-2.0
"""The dual of any activation, as a power series in the correlation."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.activations import Activation
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.kernels.moments import PairMoments, Row, RowMoments
from unlazy.special.hermite_polynomials import HermiteSeries, hermite_series

_UNROLLED = 16  # terms per turn of the loop: blocks are read and written that much less often
_DEGREES = tuple(_UNROLLED * 2**k - 2 for k in range(6))  # 14 to 510; two slots hold the tail
_TRACED_DEGREE = 126  # under a transformation, where the tail cannot be looked at
_JUMPS = (("sign", ()), ("rectified_power", (0.0,)))
_NOISE = 32  # roundings of a square: less than that is left by rounding alone
_WARN = 1e-8  # relative; in float32 it is the rounding that counts


@dataclass(frozen=True)
class SeriesDual:
    r"""The dual of `function` by Mehler's formula.

    $$E[\phi(u)\phi(v)] = \sum_k a_k(s_1)\, a_k(s_2)\, c^k, \qquad
    a_k(s) = E_{g \sim N(0, 1)}[\phi(s g) h_k(g)]$$

    for correlation c and orthonormal Hermite polynomials $h_k$, and the same for the derivative.
    One-dimensional quadrature gives the coefficients of each row, at any scale; a pair then costs
    three operations per term. Cut after K terms, the rest is at most $|c|^K \sqrt{r_1 r_2}$ with
    $r = E\phi^2 - \sum_{k<K} a_k^2$ by Cauchy-Schwarz, so the error is known. What is left goes
    into two more terms, one even and one odd, which makes parallel rows of one norm exact.

    For an activation whose nearest pole is at distance τ, $r$ falls like
    $\exp(-2 (\tau/s) \sqrt K)$: tanh to rounding at s = 1.5 with K = 254, to 1e-10 at s = 3 with
    K = 510. With a kink it falls like $K^{-3/2}$, for the derivative like $K^{-1/2}$. An
    `Activation` tells where its kink is, and quadrature is exact there. For a Python function it is
    exact at 0 alone: a kink elsewhere costs up to 1e-3 of the value and 3e-2 of the slope, and no
    tail shows it.
    """

    function: Activation | Callable[[Array], Array]
    degree: int = _TRACED_DEGREE  # terms besides the two of the tail

    def rows(self, s: Float[Array, " n"]) -> RowMoments:
        """The moments of each row, and its coefficients."""
        value, slope = self._expand(s, self.degree)
        rms = jnp.sqrt(value.square)
        unit = _with_tail(value) / jnp.where(rms > 0, rms, 1)[None, :]
        return RowMoments(rms, slope.square, (unit, _with_tail(slope)))

    def longest(self) -> "SeriesDual":
        """With the most terms, which `shares_left` and `shortened` take."""
        return replace(self, degree=_DEGREES[-1])

    def _expand(self, s: Float[Array, " n"], degree: int) -> tuple[HermiteSeries, HermiteSeries]:
        value = hermite_series(self.function, s, degree, kink=self._kink)
        # Without a slope `ntk` asks for the readout's kernel alone, and this stays unused.
        if not self.has_slope:
            return value, value
        return value, hermite_series(_slope(self.function), s, degree, kink=self._kink)

    @property
    def has_slope(self) -> bool:
        """Whether the derivative has a mean square: not where an `Activation` jumps."""
        phi = self.function
        return not (isinstance(phi, Activation) and (phi.name, phi.coefficients) in _JUMPS)

    @property
    def _kink(self) -> float:
        phi = self.function  # only an `Activation` tells
        return phi.shift if isinstance(phi, Activation) and not phi.is_smooth else 0.0

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], r1: Row, r2: Row
    ) -> PairMoments:
        """The two series, summed."""
        del gap  # a truncated series is a polynomial: it has no root at |cos| = 1
        (value1, slope1), (value2, slope2) = r1.moments.features, r2.moments.features
        rho = jnp.clip(_power_series(cos, value1, value2), -1, 1)
        return PairMoments(rho, 1 - jnp.abs(rho), _power_series(cos, slope1, slope2))


@functools.lru_cache(maxsize=64)  # the same function each time, or jax.jit compiles anew
def _slope(function: Activation | Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The derivative: an `Activation` states it, a Python function is differentiated."""
    if isinstance(function, Activation):
        return function.derivative(1)
    return lambda z: jax.jvp(function, (z,), (jnp.ones_like(z),))[1]


def _with_tail(series: HermiteSeries) -> Float[Array, "k n"]:
    """The coefficients, and the roots of what the even and the odd ones leave of the square."""
    squares = (series.coefficients**2).reshape(-1, 2, *series.square.shape).sum(axis=0)
    tails = jnp.stack([series.even_square, series.square - series.even_square]) - squares
    positive = tails > _NOISE * jnp.finfo(tails.dtype).eps * series.square[None, :]
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, tails, 1)), 0)
    return jnp.concatenate([series.coefficients, root])


def shares_left(moments: RowMoments) -> Float[Array, " k"]:
    """The largest share of any row's squares that is left after each of the degrees.

    `moments` are those of the longest series, which has the terms of all others.
    """
    terms = np.arange(_DEGREES[-1] + 2)
    later = [(terms >= d) & (terms % 2 == parity) for d in _DEGREES for parity in (0, 1)]

    def shares(unit: Float[Array, "q n"]) -> Float[Array, "k n"]:
        mask = jnp.asarray(np.array(later), unit.dtype)
        tails = jnp.matmul(mask, unit**2, precision=jax.lax.Precision.HIGHEST)
        tails = jnp.where(tails > _NOISE * jnp.finfo(unit.dtype).eps, tails, 0)
        return tails.reshape(len(_DEGREES), 2, -1).sum(axis=1)

    (value, slope), square = moments.features, moments.slope_square[None, :]
    both = shares(value), shares(slope / jnp.sqrt(jnp.where(square > 0, square, 1)))
    return jnp.maximum(*both).max(axis=1)


def shortened(features: Float[Array, "*layers k n"], degree: int) -> Float[Array, "*layers q n"]:
    """Fewer terms of the longest series; what they leave goes into the two of the tail."""
    *layers, _, n = features.shape
    rest = features[..., degree:, :].reshape(*layers, -1, 2, n)  # even and odd, as the tail is
    tail = jnp.sqrt(jnp.sum(rest**2, axis=-3))
    return jnp.concatenate([features[..., :degree, :], tail], axis=-2)


def enough_terms(shares: Float[np.ndarray, " k"]) -> int:
    """The fewest terms that leave nothing, else the most terms."""
    found = np.flatnonzero(shares == 0)
    return _DEGREES[found[0] if found.size else -1]


def warn_of_tail(left: float) -> None:
    """Warn if the most terms leave this share of a mean square, and it is not rounding."""
    if left > _WARN:
        warnings.warn(
            f"the Hermite series of `activation`, cut after {_DEGREES[-1]} terms, leaves up to "
            f"{left:.1g} of the mean square: between rows whose outputs in some layer have "
            f"correlation c, entries may be off by {left:.1g} |c|^{_DEGREES[-1]}, relative to the "
            "diagonal. Scale the inputs or the variances down, or use a smoother activation.",
            UnlazyWarning,
            stacklevel=user_level(),
        )


def _power_series(
    c: Float[Array, "*shape"], a1: Float[Array, "k ..."], a2: Float[Array, "k ..."]
) -> Float[Array, "*shape"]:
    turns = a1.shape[0] // _UNROLLED
    a1, a2 = (a.reshape(turns, _UNROLLED, *a.shape[1:]) for a in (a1, a2))

    def turn(total, pair):
        for k in reversed(range(_UNROLLED)):
            total = total * c + pair[0][k] * pair[1][k]
        return total, None

    return jax.lax.scan(turn, jnp.zeros_like(c), (a1, a2), reverse=True)[0]
