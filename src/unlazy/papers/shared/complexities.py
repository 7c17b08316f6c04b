# SPDX-License-Identifier: Apache-2.0
"""The complexities C_s and C_eps of functions given by their power series, in logarithms."""

import math
from collections.abc import Callable, Sequence

import equinox as eqx
import numpy as np

from unlazy.core.checks import check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import check_epsilon
from unlazy.papers.shared.power_series import PowerSeries

_BELOW = 40.0  # nats: a term this far below the largest no longer matters
_QUIET = 50  # so many of them in a row end the series
_MOST = 2**22  # terms


class SeriesComplexity(eqx.Module):
    r"""The complexities $C_\varepsilon$ and $C_s$ as decimal logarithms.

    With the constant 1e4 the first has thousands of digits. `reason` says why one is infinite.
    """

    log10_c_eps: float
    log10_c_s: float
    reason: str | None = None

    @property
    def c_eps(self) -> float:
        """The number itself, infinite where a float cannot hold it."""
        return power_of_ten(self.log10_c_eps)

    @property
    def c_s(self) -> float:
        """The number itself, infinite where a float cannot hold it."""
        return power_of_ten(self.log10_c_s)


def power_of_ten(log10: float) -> float:
    """The number of that decimal logarithm, infinite beyond the largest float."""
    return 10.0**log10 if log10 < 308 else math.inf


@entry
def series_complexity(
    functions: Sequence[PowerSeries],
    *,
    log10_radius: float = 0.0,
    epsilon: float = 0.1,
    constant: int | float = 2.0,
    exponent: int | float = 1.0,
) -> SeriesComplexity:
    r"""The largest of the complexities that `function_complexity` gives for several functions.

    The radius is given by its logarithm: where functions are composed, it is a complexity itself.

    Source: LG-5, arXiv:1811.04918; RN-13, arXiv:1905.10337.
    """
    check_epsilon(epsilon)
    check_positive(constant, "constant")
    check_finite(exponent, "exponent")
    if not functions:
        raise ValueError("`functions` must be at least one, got none.")
    reason = _reason(functions, log10_radius, constant)
    try:
        c_eps = log10_c_eps(functions, log10_radius, epsilon, constant)
    except _UnsettledError as error:  # C_s, whose terms are smaller, may well be known
        size = power_of_ten(log10_radius + math.log10(constant))
        c_eps = math.inf
        reason = reason or (
            f"the series of C_eps of {error.name} at {size:.6g} does not settle within {_MOST} "
            "terms: truncate it to a polynomial"
        )
    return SeriesComplexity(
        log10_c_eps=c_eps,
        log10_c_s=log10_c_s(functions, log10_radius, constant, exponent),
        reason=reason,
    )


def log10_c_eps(
    functions: Sequence[PowerSeries], log10_radius: float, epsilon: float, constant: int | float
) -> float:
    """The largest C_eps of the functions; infinite where a series diverges."""
    reach = math.log(constant) + log10_radius * math.log(10)
    log_log = math.log(math.log(1 / epsilon))

    def factors(i: np.ndarray) -> np.ndarray:
        spread = (log_log - np.log(np.maximum(i, 1))) / 2
        return np.logaddexp(_times(i, reach), _times(i, reach + spread))

    totals = [_log_sum(factors, f, reach, log10_radius) for f in functions]
    return max(totals) / math.log(10)


def log10_c_s(
    functions: Sequence[PowerSeries],
    log10_radius: float,
    constant: int | float,
    exponent: int | float,
) -> float:
    """The largest C_s of the functions; infinite where a series diverges."""
    reach = log10_radius * math.log(10)

    def factors(i: np.ndarray) -> np.ndarray:
        return exponent * np.log(i + 1) + _times(i, reach)

    totals = [_log_sum(factors, f, reach, log10_radius) for f in functions]
    return (math.log(constant) + max(totals)) / math.log(10)


def _times(i: np.ndarray, reach: float | np.ndarray) -> np.ndarray:
    """The product with reach, which may be -inf; 0 * inf counts as 0."""
    return np.where(i == 0, 0.0, np.maximum(i, 1) * reach)


def _reason(
    functions: Sequence[PowerSeries], log10_radius: float, constant: int | float
) -> str | None:
    for function in functions:
        limit = math.log10(function.radius) if function.radius < math.inf else math.inf
        for what, reach in [("C_s", 0.0), ("C_eps", math.log10(constant))]:
            if log10_radius + reach >= limit:
                size = power_of_ten(log10_radius + reach)
                return (
                    f"the series of {what} of {function.name} diverges at {size:.6g}: "
                    f"its radius of convergence is {function.radius:.6g}"
                )
    return None


class _UnsettledError(ValueError):
    """A series has terms that matter beyond those that are summed."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"`radius` must be small enough for the series to settle within {_MOST} terms, but it "
            f"did not for {name}. Lower the constant or the radius, or truncate the series to a "
            "polynomial."
        )
        self.name = name


def _log_sum(
    factors: Callable[[np.ndarray], np.ndarray],
    function: PowerSeries,
    reach: float,
    log10_radius: float,
) -> float:
    """The logarithm of the sum of |c_i| exp(factors(i)) over the series.

    It is -inf for the zero function, and inf where the series diverges at exp(reach).
    """
    if reach >= math.log(function.radius):
        return math.inf
    degree = 0 if log10_radius == -math.inf else function.degree  # at radius 0 the constant alone
    end = _MOST if degree is None else degree + 1
    total, largest, below, start, size = -math.inf, -math.inf, 0, 0, 512
    while start < end:
        i = np.arange(start, min(start + size, end))
        t = factors(i) + function.log_coefficients(i)
        t = t[t > -math.inf]
        if len(t):
            largest = max(largest, float(np.max(t)))
            total = float(np.logaddexp(total, np.logaddexp.reduce(t)))
            loud = np.flatnonzero(t >= largest - _BELOW)
            below = len(t) - 1 - int(loud[-1]) if len(loud) else below + len(t)
        if degree is None and below >= _QUIET:
            return total
        start, size = start + size, min(2 * size, 2**18)
    if degree is None:
        raise _UnsettledError(function.name)
    return total
