# SPDX-License-Identifier: Apache-2.0
"""Zonal coefficients of an activation's derivatives, and shifts at which none needed vanishes."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float64

from unlazy.core.checks import MOST_IN_TABLE, check_count, check_positive
from unlazy.core.entries import entry
from unlazy.special.harmonics import funk_hecke, harmonic_dimension

# Shifts to try, in order of preference where several serve equally well.
_CANDIDATES = np.array(sorted(np.arange(-12, 13) / 4, key=lambda b: (abs(b), -b)))
_TINY = 1e-300
_VANISHES = 0.01  # of the root mean square of the derivative


@runtime_checkable
class Derivatives(Protocol):
    """A function of one variable that knows its derivatives, such as an `Activation`."""

    def derivative(self, k: int) -> Callable[[Any], Any]:
        """The k-th derivative, a function of an array."""
        ...


class Needed(NamedTuple):
    """One coefficient that a construction divides by."""

    derivative: int
    degree: int
    value: float  # sqrt(N_l) c_l
    relative: float  # its size over the root mean square of that derivative


class ShiftReport(NamedTuple):
    """The coefficients that are needed, those that vanish, and a further shift where none does.

    `suggested` is 0 where nothing vanishes, and None where no shift helps.
    """

    needed: tuple[Needed, ...]
    vanishing: tuple[Needed, ...]
    suggested: float | None

    @property
    def is_generic(self) -> bool:
        """Whether no needed coefficient vanishes."""
        return not self.vanishing


@entry
def gegenbauer_coefficients(
    activation: Derivatives,
    d: int,
    degree: int,
    derivative: int = 0,
    *,
    scale: int | float | None = None,
) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of a derivative of an activation in the normalised Gegenbauer polynomials.

    $$\hat c_l = \sqrt{N(d, l)}\; \mathbb E[\sigma^{(j)}(r t)\, P_l(t)], \qquad
    \sum_l \hat c_l^2 = \mathbb E\, \sigma^{(j)}(r t)^2$$

    for t a coordinate of a uniform unit vector and $r = \sqrt d$, so that $r t = w^\top x$ for a
    unit w and an input x of norm $\sqrt d$. Divide by $\sqrt{N(d, l)}$
    (`harmonic_dimension`) for the Funk-Hecke coefficient $c_l$ itself.

    Source: NB-10, arXiv:2206.03688.

    Each is accurate to about 1e-16 times the root mean square of the derivative, unless that has a
    kink away from 0.

    Args:
        activation: with exact derivatives, such as `unlazy.activation("sigmoid", shift=1.5)`.
        d: dimension of the space, at least 2.
        degree: the highest.
        derivative: j.
        scale: r; the square root of d when None.

    Example:
        >>> import unlazy as ul
        >>> sigma = ul.activation("sigmoid", shift=1.5)
        >>> print(gegenbauer_coefficients(sigma, 30, 3, derivative=1).round(6))
        [ 0.14842   0.065158 -0.006989 -0.017779]
    """
    check_count(d, "d", least=2)
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    return _normalized(activation.derivative(derivative), d, degree, _radius(d, scale))


@entry
def generic_shift(
    activation: Derivatives,
    d: int,
    degree: int,
    *,
    derivatives: tuple[int, ...] = (1, 2),
    scale: int | float | None = None,
) -> ShiftReport:
    r"""Check the coefficients that low-degree plus sparse learning divides by; suggest a shift.

    The linear term learns harmonics of degree at most k through $\hat c_l(\sigma')$, l < k and
    l = 1 (constants); the quadratic term builds $(\beta^\top x)^{k+1}$ through
    $\hat c_l(\sigma'')$ for l = k-1, k-3, ... A coefficient below a hundredth of the root mean
    square of its derivative counts as vanishing. The suggested shift, of multiples of 1/4 up to 3,
    makes the smallest needed coefficient largest, each relative to the largest root mean square
    that its derivative has at any of these shifts.

    Source: NB-40 and Assumption 3 of arXiv:2206.03688, as reconstructed in NB section 8, item 7.

    `degree` is k; in `derivatives`, 1 asks for what the linear term needs and 2 for what the
    quadratic term needs. The other arguments are those of `gegenbauer_coefficients`.

    Example:
        >>> import unlazy as ul
        >>> report = generic_shift(ul.activation("sigmoid"), 30, degree=1)
        >>> [(lost.derivative, lost.degree) for lost in report.vanishing]  # s' is even, s'' odd
        [(1, 1), (2, 0)]
        >>> report.suggested
        1.75
    """
    check_count(d, "d", least=2)
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    if not derivatives or not set(derivatives) <= {1, 2}:
        raise ValueError(f"`derivatives` must be of 1 and 2, got derivatives={derivatives}.")
    radius = _radius(d, scale)
    wanted = {1: sorted({*range(degree), 1}), 2: list(range(degree - 1, -1, -2))}
    wanted = {j: wanted[j] for j in derivatives}
    values, sizes = _at_shifts(activation, d, wanted, radius, [0.0])
    needed = tuple(
        Needed(j, l, float(value[0]), float(abs(value[0]) / max(sizes[j][0], _TINY)))
        for (j, l), value in values.items()
    )
    vanishing = tuple(one for one in needed if one.relative < _VANISHES)
    if not vanishing:
        return ShiftReport(needed, (), 0.0)
    tried = _at_shifts(activation, d, wanted, radius, _CANDIDATES)
    return ShiftReport(needed, vanishing, _best(*tried))


def _radius(d: int, scale: int | float | None) -> float:
    if scale is None:
        return math.sqrt(d)
    check_positive(scale, "scale")
    return float(scale)


def _normalized(function: Callable[[Array], Array], d: int, degree: int, radius: float):
    sizes = np.sqrt([float(harmonic_dimension(d, l)) for l in range(degree + 1)])
    return sizes * funk_hecke(function, d, degree, scale=radius)


def _best(values, sizes) -> float | None:
    """The candidate whose smallest needed coefficient is largest, if one has none that vanishes."""
    relative = [np.abs(v) / np.maximum(sizes[j], _TINY) for (j, _), v in values.items()]
    absolute = [np.abs(v) / max(sizes[j].max(), _TINY) for (j, _), v in values.items()]
    score = np.where(np.min(relative, axis=0) < _VANISHES, 0.0, np.min(absolute, axis=0))
    # Rounded, so that rounding errors do not choose between b and -b for an odd activation.
    return float(_CANDIDATES[np.argmax(score.round(9))]) if score.max() > 0 else None


def _at_shifts(activation, d, wanted, radius, shifts):
    """The wanted coefficients and the root mean squares at every shift."""
    values, sizes = {}, {}
    for j, degrees in wanted.items():
        if not degrees:
            continue
        function, last = activation.derivative(j), max(degrees)
        moved = [_moved(function, float(b)) for b in shifts]
        rows = [_normalized(f, d, last, radius) for f in moved]
        squares = [funk_hecke(lambda z, f=f: f(z) ** 2, d, 0, scale=radius) for f in moved]
        sizes[j] = np.sqrt(np.maximum(np.concatenate(squares), 0.0))
        values.update({(j, l): np.array([row[l] for row in rows]) for l in degrees})
    return values, sizes


def _moved(function: Callable[[Array], Array], shift: float) -> Callable[[Array], Array]:
    return lambda z: function(z - shift)
