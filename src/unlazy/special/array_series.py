# SPDX-License-Identifier: Apache-2.0
r"""Truncated power series with arrays for coefficients, and their arithmetic.

A value that depends on t is a tuple $(c_0, c_1, \dots)$ of its coefficients: $c_j$ is the j-th
derivative over $j!$, so that no factorials grow. None stands for a coefficient that is zero, and
zeros at the end are left out: a constant is the tuple of one array, a moving parameter of two.
"""

from collections.abc import Iterable, Sequence

import jax.numpy as jnp
from jaxtyping import Array

Series = tuple[Array, *tuple[Array | None, ...]]


def is_moving(s: Series) -> bool:
    """Whether the series has a coefficient beyond the first."""
    return len(s) > 1


def at(s: Sequence[Array | None], j: int) -> Array | None:
    """The j-th coefficient, None where it is zero."""
    return s[j] if j < len(s) else None


def trimmed(coefficients: Iterable[Array | None]) -> Series:
    """The coefficients without the zeros at the end; the first is kept."""
    first, *rest = coefficients
    while rest and rest[-1] is None:
        rest.pop()
    assert first is not None  # every value has one, if of zeros
    return (first, *rest)


def total(terms: Iterable[Array | None]) -> Array | None:
    """Their sum; None when all are zero."""
    result = None
    for term in terms:
        if term is not None:
            result = term if result is None else result + term
    return result


def scaled(factor: int | float, c: Array | None) -> Array | None:
    """A multiple of a coefficient."""
    return c if c is None or factor == 1 else c * factor


def times(a: Array | None, b: Array | None) -> Array | None:
    """A product of coefficients."""
    return None if a is None or b is None else a * b


def minus(a: Array | None, b: Array | None) -> Array | None:
    """A difference of coefficients."""
    if b is None:
        return a
    return -b if a is None else a - b


def coefficient(a: Sequence[Array | None], b: Sequence[Array | None], j: int) -> Array | None:
    """The j-th coefficient of the product of two series."""
    return total(times(at(a, i), at(b, j - i)) for i in range(j + 1))


def squared(a: Sequence[Array | None], j: int) -> Array | None:
    """The j-th coefficient of the square, with half of the products."""
    crossed = total(times(at(a, i), at(a, j - i)) for i in range((j + 1) // 2))
    middle = times(at(a, j // 2), at(a, j // 2)) if j % 2 == 0 else None
    return total([scaled(2, crossed), middle])


def product(a: Series, b: Series, order: int) -> Series:
    """The product of two series, up to `order`."""
    last = min(order, len(a) + len(b) - 2)
    if a is b:
        return trimmed(squared(a, j) for j in range(last + 1))
    return trimmed(coefficient(a, b, j) for j in range(last + 1))


def quotient(a: Series, b: Series, order: int) -> Series:
    """The quotient of two series, up to `order`."""
    if not is_moving(b):
        return trimmed(None if c is None else c / b[0] for c in a[: order + 1])
    result: list[Array | None] = []
    for j in range(order + 1):
        known = total(times(b[i], at(result, j - i)) for i in range(1, min(j, len(b) - 1) + 1))
        top = minus(at(a, j), known)
        result.append(None if top is None else top / b[0])
    return trimmed(result)


def derivative(s: Series) -> Series:
    """The series of the derivative with respect to t."""
    start = at(s, 1)
    rest = (scaled(j, s[j]) for j in range(2, len(s)))
    return trimmed([jnp.zeros_like(s[0]) if start is None else start, *rest])


def primitive_of(velocity: Series, start: Array) -> Series:
    """The series whose derivative is `velocity` and whose value at 0 is `start`."""
    return trimmed([start, *(scaled(1 / (j + 1), velocity[j]) for j in range(len(velocity)))])


def dense(s: Series, order: int) -> tuple[Array, *tuple[Array, ...]]:
    """All coefficients up to `order`, with arrays of zeros."""
    zero = jnp.zeros_like(s[0])
    return s[0], *(zero if c is None else c for c in (at(s, j) for j in range(1, order + 1)))
