# SPDX-License-Identifier: Apache-2.0
"""The lattice of {1, 2, 5} times powers of ten, which the papers tune over."""

import math
from collections.abc import Sequence

_STEPS = (1, 2, 5)


def point(index: int) -> float:
    """The number at a place of the lattice; three places make a decade, place 0 is 1."""
    power, step = divmod(index, 3)
    return float(f"{_STEPS[step]}e{power}")  # the very number that one would write


def nearest(value: int | float) -> int:
    """The place of the number nearest in ratio.

    Example:
        >>> point(nearest(0.0051)), point(nearest(3.9e-3))
        (0.005, 0.005)
    """
    guess = math.floor(3 * math.log10(value))
    return min(range(guess - 2, guess + 4), key=lambda i: abs(math.log(point(i) / value)))


def between(low: int | float, high: int | float) -> tuple[float, ...]:
    """All numbers of the lattice from `low` to `high`, both included.

    Example:
        >>> between(0.05, 1)
        (0.05, 0.1, 0.2, 0.5, 1.0)
    """
    places = range(nearest(low) - 1, nearest(high) + 2)
    slack = 1 + 1e-9
    return tuple(v for v in map(point, places) if low / slack <= v <= high * slack)


def run_from(low: int | float, count: int) -> tuple[float, ...]:
    """`count` neighbours, upwards from the number nearest to `low`."""
    first = nearest(low)
    return tuple(point(first + i) for i in range(count))


def decade_beyond(values: Sequence[int | float], side: str) -> tuple[float, ...]:
    """The next three numbers below ("low") or above ("high") the positive ones among `values`.

    Example:
        >>> decade_beyond((0.1, 0.2), "high"), decade_beyond((0.0, 0.1, 0.2), "low")
        ((0.5, 1.0, 2.0), (0.01, 0.02, 0.05))
    """
    positive = [value for value in values if value > 0]
    if side == "high":
        return tuple(point(nearest(max(positive)) + i) for i in (1, 2, 3))
    return tuple(point(nearest(min(positive)) - i) for i in (3, 2, 1))
