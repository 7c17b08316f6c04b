# SPDX-License-Identifier: Apache-2.0
"""The dual of any activation, as a power series in the correlation."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

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

    def probe(self) -> "_Probe":
        """A dual whose features tell how many terms the rows ask for; see `enough_terms`."""
        return _Probe(self)

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


@dataclass(frozen=True)
class _Probe:
    """The dual's moments, with the largest relative tail of any row after each of `_DEGREES`."""

    dual: SeriesDual

    def rows(self, s: Float[Array, " n"]) -> RowMoments:
        value, slope = self.dual._expand(s, _DEGREES[-1])
        left = [
            jnp.maximum(_relative_tail(value, degree), _relative_tail(slope, degree))
            for degree in _DEGREES
        ]
        return RowMoments(jnp.sqrt(value.square), slope.square, jnp.stack(left))

    def pairs(self, cos, gap, r1: Row, r2: Row) -> PairMoments:
        raise NotImplementedError  # a probe is asked for rows alone


def _tails(series: HermiteSeries, degree: int) -> Float[Array, "2 n"]:
    """The share of the even and the odd terms from `degree` on in the square."""
    squares = series.coefficients[:degree] ** 2
    even = series.even_square - squares[::2].sum(axis=0)
    odd = series.square - series.even_square - squares[1::2].sum(axis=0)
    tails = jnp.stack([even, odd])
    noise = 32 * jnp.finfo(tails.dtype).eps * series.square
    return jnp.where(tails > noise[None, :], tails, 0)


def _with_tail(series: HermiteSeries) -> Float[Array, "k n"]:
    tails = _tails(series, len(series.coefficients))
    positive = tails > 0
    root = jnp.where(positive, jnp.sqrt(jnp.where(positive, tails, 1)), 0)
    return jnp.concatenate([series.coefficients, root])


def _relative_tail(series: HermiteSeries, degree: int) -> Float[Array, ""]:
    square = series.square
    return jnp.max(_tails(series, degree).sum(axis=0) / jnp.where(square > 0, square, 1))


def enough_terms(tails: Float[np.ndarray, "layers k"]) -> list[int]:
    """Per layer, the fewest terms that leave no tail; warn if even the most terms leave one.

    `tails` are a probe's features, per layer.
    """
    left = float(np.max(tails[:, -1]))
    if left > _WARN:
        warnings.warn(
            f"the Hermite series of `activation`, cut after {_DEGREES[-1]} terms, leaves up to "
            f"{left:.1g} of the mean square: between rows whose outputs in some layer have "
            f"correlation c, entries may be off by {left:.1g} |c|^{_DEGREES[-1]}, relative to the "
            "diagonal. Scale the inputs or the variances down, or use a smoother activation.",
            UnlazyWarning,
            stacklevel=user_level(),
        )
    choices = [np.flatnonzero(row == 0) for row in tails]
    return [_DEGREES[found[0] if found.size else -1] for found in choices]


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
