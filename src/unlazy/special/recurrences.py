# SPDX-License-Identifier: Apache-2.0
r"""Elementary functions of a series, by the recurrences that their differential equations give.

If $y = \phi(x)$ and $\phi'(x) = s$ then $y' = s x'$, and comparing coefficients

$$j\, y_j = \sum_{i=1}^{j} i\, x_i\, s_{j-i}.$$

Where $s$ is known in terms of $y$ and $x$, each coefficient follows from those before it: order k
takes about $k^2$ multiplications an entry, and no derivative of $\phi$ is written out.
"""

import math
from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array

from unlazy.special.array_series import (
    Series,
    at,
    coefficient,
    minus,
    product,
    quotient,
    scaled,
    squared,
    times,
    total,
    trimmed,
)

Coefficients = Sequence[Array | None]


def by_slope(
    x: Series, start: Array, slope: Callable[[Coefficients, int], Array | None], order: int
) -> Series:
    """The solution of y' = s x', where `slope(y, j)` is s's j-th coefficient from y up to j."""
    y: list[Array | None] = [start]
    s: list[Array | None] = []
    velocity = [scaled(i, at(x, i)) for i in range(order + 1)]
    for j in range(1, order + 1):
        s.append(slope(y, j - 1))
        y.append(scaled(1 / j, total(times(velocity[i], s[j - i]) for i in range(1, j + 1))))
    return trimmed(y)


def with_slope(x: Series, start: Array, slope: Series, order: int) -> Series:
    """The same with the series of the slope given."""
    return by_slope(x, start, lambda _, j: at(slope, j), order)


def exp(x: Series, order: int) -> Series:
    """The exponential."""
    return by_slope(x, lax.exp(x[0]), lambda y, j: y[j], order)


def exp2(x: Series, order: int) -> Series:
    """Two to the power x."""
    return by_slope(x, lax.exp2(x[0]), lambda y, j: scaled(math.log(2), y[j]), order)


def expm1(x: Series, order: int) -> Series:
    """The exponential less one, exact near 0."""
    return (lax.expm1(x[0]), *exp(x, order)[1:])


def log(x: Series, order: int) -> Series:
    """The natural logarithm."""
    return with_slope(x, lax.log(x[0]), reciprocal(x, order - 1), order)


def log1p(x: Series, order: int) -> Series:
    """The logarithm of 1 + x, exact near 0."""
    slope = reciprocal((x[0] + 1, *x[1:]), order - 1)
    return with_slope(x, lax.log1p(x[0]), slope, order)


def reciprocal(x: Series, order: int) -> Series:
    """One over x."""
    return quotient((jnp.ones_like(x[0]),), x, order)


def tanh(x: Series, order: int) -> Series:
    """The hyperbolic tangent."""
    # 1 - tanh^2 from the logistic function, which keeps its digits where tanh is close to 1.
    start = 4 * lax.logistic(2 * x[0]) * lax.logistic(-2 * x[0])

    def slope(y, j):
        return start if j == 0 else scaled(-1, squared(y, j))

    return by_slope(x, lax.tanh(x[0]), slope, order)


def tan(x: Series, order: int) -> Series:
    """The tangent."""
    return by_slope(x, lax.tan(x[0]), lambda y, j: _one_more(squared(y, j), j), order)


def logistic(x: Series, order: int) -> Series:
    """The logistic sigmoid."""
    # s (1 - s) with 1 - s = logistic(-x), which keeps its digits where s is close to 1.
    start = lax.logistic(x[0])
    rest = lax.logistic(-x[0])

    def slope(y, j):
        return start * rest if j == 0 else minus(y[j], squared(y, j))

    return by_slope(x, start, slope, order)


def sin(x: Series, order: int) -> Series:
    """The sine."""
    return _circular(x, order)[0]


def cos(x: Series, order: int) -> Series:
    """The cosine."""
    return _circular(x, order)[1]


def sinh(x: Series, order: int) -> Series:
    """The hyperbolic sine."""
    return _hyperbolic(x, order)[0]


def cosh(x: Series, order: int) -> Series:
    """The hyperbolic cosine."""
    return _hyperbolic(x, order)[1]


def sqrt(x: Series, order: int) -> Series:
    """The square root."""
    start = lax.sqrt(x[0])
    y: list[Array | None] = [start]
    half = 0.5 / start
    for j in range(1, order + 1):
        y.append(times(minus(at(x, j), squared([None, *y[1:]], j)), half))
    return trimmed(y)


def rsqrt(x: Series, order: int) -> Series:
    """One over the square root."""
    return _power_at_nonzero(x, lax.rsqrt(x[0]), -0.5, order)


def cbrt(x: Series, order: int) -> Series:
    """The cube root."""
    return _power_at_nonzero(x, lax.cbrt(x[0]), 1 / 3, order)


def integer_power(x: Series, n: int, order: int) -> Series:
    """An integer power, by repeated squaring; also where x is 0."""
    if n < 0:
        return reciprocal(integer_power(x, -n, order), order)
    if n == 0:
        return (jnp.ones_like(x[0]),)
    half = integer_power(x, n // 2, order) if n > 1 else None
    if half is None:
        return trimmed(x[: order + 1])
    square = product(half, half, order)
    return product(square, x, order) if n % 2 else square


def power(x: Series, exponent: Array, order: int) -> Series:
    r"""A power with an exponent that does not move, also of x < 0 or x = 0 where it is a number.

    The derivatives $r (r-1) \cdots (r-j+1) x_0^{r-j}$ are written out, because the recurrence
    divides by $x_0$; a factor that is 0 wins over a power that is infinite.
    """
    slopes, factor = [], jnp.ones_like(x[0])
    for j in range(order + 1):
        lowered = lax.pow(x[0], exponent - j)
        slopes.append(jnp.where(factor == 0, jnp.zeros_like(lowered), factor * lowered))
        factor = factor * (exponent - j) / (j + 1)
    return compose(slopes, x, order)


def compose(outer: Sequence[Array], x: Series, order: int) -> Series:
    """The function whose normalised derivatives at x_0 are `outer`, by Horner's scheme."""
    step = (None, *x[1:])
    result: Series = (outer[-1],)
    for c in outer[-2::-1]:
        shifted = [coefficient(result, step, j) for j in range(order + 1)]
        result = (c, *shifted[1:])
    return trimmed(result)


def erf(x: Series, order: int) -> Series:
    """The error function."""
    return with_slope(x, lax.erf(x[0]), _bell(x, 2 / math.sqrt(math.pi), order - 1), order)


def erfc(x: Series, order: int) -> Series:
    """One less the error function."""
    return with_slope(x, lax.erfc(x[0]), _bell(x, -2 / math.sqrt(math.pi), order - 1), order)


def atan(x: Series, order: int) -> Series:
    """The inverse tangent."""
    slope = reciprocal(_one_plus(product(x, x, order), 1), order - 1)
    return with_slope(x, lax.atan(x[0]), slope, order)


def asin(x: Series, order: int) -> Series:
    """The inverse sine."""
    return with_slope(x, lax.asin(x[0]), _over_root(x, 1, -1, order), order)


def acos(x: Series, order: int) -> Series:
    """The inverse cosine."""
    slope = trimmed(scaled(-1, c) for c in _over_root(x, 1, -1, order))
    return with_slope(x, lax.acos(x[0]), slope, order)


def asinh(x: Series, order: int) -> Series:
    """The inverse hyperbolic sine."""
    return with_slope(x, lax.asinh(x[0]), _over_root(x, 1, 1, order), order)


def acosh(x: Series, order: int) -> Series:
    """The inverse hyperbolic cosine."""
    return with_slope(x, lax.acosh(x[0]), _over_root(x, -1, 1, order), order)


def atanh(x: Series, order: int) -> Series:
    """The inverse hyperbolic tangent."""
    square = trimmed(scaled(-1, c) for c in product(x, x, order))
    slope = reciprocal(_one_plus(square, 1), order - 1)
    return with_slope(x, lax.atanh(x[0]), slope, order)


def _one_more(c: Array | None, j: int) -> Array | None:
    return c if c is None or j else 1 + c


def _one_plus(s: Series, one: int) -> Series:
    return (s[0] + one, *s[1:])


def _over_root(x: Series, one: int, sign: int, order: int) -> Series:
    r"""The series of $(1 + sign\, x^2)^{-1/2}$, with `one` in place of 1."""
    square = trimmed(scaled(sign, c) for c in product(x, x, order - 1))
    return rsqrt(_one_plus(square, one), order - 1)


def _bell(x: Series, factor: float, order: int) -> Series:
    square = trimmed(scaled(-1, c) for c in product(x, x, order))
    return trimmed(scaled(factor, c) for c in exp(square, order))


def _power_at_nonzero(x: Series, start: Array, r: float, order: int) -> Series:
    # From x y' = r y x': j x_0 y_j = sum_i ((r + 1) i - j) x_i y_(j-i).
    y: list[Array | None] = [start]
    inverse = 1 / x[0]
    for j in range(1, order + 1):
        terms = (
            scaled((r + 1) * i / j - 1, times(at(x, i), at(y, j - i))) for i in range(1, j + 1)
        )
        y.append(times(total(terms), inverse))
    return trimmed(y)


def _circular(x: Series, order: int) -> tuple[Series, Series]:
    return _pair(x, (lax.sin(x[0]), lax.cos(x[0])), -1, order)


def _hyperbolic(x: Series, order: int) -> tuple[Series, Series]:
    return _pair(x, (lax.sinh(x[0]), lax.cosh(x[0])), 1, order)


def _pair(x: Series, start: tuple[Array, Array], sign: int, order: int) -> tuple[Series, Series]:
    """Both functions at once: each is the slope of the other, the first's with that sign."""
    y: list[Array | None] = [start[0]]
    z: list[Array | None] = [start[1]]
    velocity = [scaled(i, at(x, i)) for i in range(order + 1)]
    for j in range(1, order + 1):
        up = total(times(velocity[i], z[j - i]) for i in range(1, j + 1))
        down = total(times(velocity[i], y[j - i]) for i in range(1, j + 1))
        y.append(scaled(1 / j, up))
        z.append(scaled(sign / j, down))
    return trimmed(y), trimmed(z)
