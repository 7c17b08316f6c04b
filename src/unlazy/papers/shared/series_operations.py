# SPDX-License-Identifier: Apache-2.0
"""Products and compositions of power series, and polynomials for functions that have none."""

import math
from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Float64
from numpy.polynomial import Polynomial, chebyshev

from unlazy.core.checks import MOST_IN_TABLE, calling, check_count, check_positive
from unlazy.core.entries import entry
from unlazy.papers.shared.power_series import PowerSeries, taylor_series


@entry
def series_product(first: PowerSeries, second: PowerSeries, degree: int) -> PowerSeries:
    r"""The Taylor polynomial of a product of two series.

    $$c_i = \sum_{j \le i} a_j\, b_{i-j}, \qquad i \le \text{degree}$$

    Source: LG-25, arXiv:1811.04918.

    Example:
        >>> sine = taylor_series("sin")
        >>> print(series_product(sine, sine, 4).taylor(4))
        [ 0.          0.          1.          0.         -0.33333333]
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    a, b = first.taylor(degree), second.taylor(degree)
    return taylor_series(np.convolve(a, b)[: degree + 1])


@entry
def series_composition(outer: PowerSeries, inner: PowerSeries, degree: int) -> PowerSeries:
    r"""The Taylor polynomial of $\phi(\psi(z))$ around 0.

    $$\phi(\psi(z)) = \sum_{i} \frac{\phi^{(i)}(\psi(0))}{i!}\, (\psi(z) - \psi(0))^i$$

    with $\phi$ the outer and $\psi$ the inner series. An outer polynomial is exact; an infinite
    outer series must converge at $\psi(0)$, and is cut where its terms there are below 1e-17.

    Source: LG-25, arXiv:1811.04918.

    Example:
        >>> print(series_composition(taylor_series("exp"), taylor_series("sin"), 4).taylor(4))
        [ 1.     1.     0.5    0.    -0.125]
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    b = inner.taylor(degree)
    start = float(b[0])
    # One term more for each derivative: the i-th one at the start is a tail of the series.
    reach = max(abs(start), 1e-3)
    order = max(outer.tail_degree(1e-17, radius=reach) + degree, degree)
    local = Polynomial(outer.taylor(order if outer.degree is None else outer.degree))
    local = local(Polynomial([start, 1.0])).coef if start else local.coef
    power, total = np.eye(1, degree + 1)[0], np.zeros(degree + 1)
    b[0] = 0.0
    for c in local[: degree + 1]:
        total = total + c * power
        power = np.convolve(power, b)[: degree + 1]
    return taylor_series(total)


class ChebyshevSeries(eqx.Module):
    """A polynomial fitted to a function on [-radius, radius], and its error there."""

    chebyshev: Float64[np.ndarray, " q"]  # in Chebyshev polynomials of z/radius: for evaluation
    series: PowerSeries  # the same in powers of z: for complexities
    max_error: float  # on a grid ten times as fine as the nodes
    radius: float = 1.0

    @entry
    def __call__(self, z: Float64[np.ndarray, "*shape"]) -> Float64[np.ndarray, "*shape"]:
        """The polynomial at `z`, evaluated stably where its powers would cancel."""
        return chebyshev.chebval(np.asarray(z, np.float64) / self.radius, self.chebyshev)


@entry
def chebyshev_series(
    function: Callable[[np.ndarray], np.ndarray], degree: int, *, radius: int | float = 1.0
) -> ChebyshevSeries:
    r"""A polynomial for a function whose Taylor series does not reach as far as it is needed.

    $$\phi(z) \approx \sum_{k \le D} t_k T_k(z/R) = \sum_{i \le D} c_i z^i, \qquad |z| \le R$$

    interpolated at the Chebyshev nodes, with D the `degree` and R the `radius`. The function
    $\tanh(8z)$ has a Taylor series up to $\pi/16$ only; its complexity on [-1, 1] is that of this
    polynomial. The powers of z grow like $(1 + \sqrt 2)^D$, and cancel: beyond a degree of 40 the
    `series` is for complexities only; to evaluate, call the result itself.

    Source: LG-25, arXiv:1811.04918.

    Example:
        >>> fit = chebyshev_series(lambda z: np.tanh(8 * z), 41)
        >>> print(fit.max_error < 1e-3, fit.series.degree)
        True 41
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    check_positive(radius, "radius")
    if degree > 100:
        raise ValueError(f"`degree` must be at most 100, got degree={degree}.")
    nodes = np.cos(math.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    with calling("function", "an array of points"):
        values = np.asarray(function(float(radius) * nodes), np.float64)
    if not np.isfinite(values).all():
        raise ValueError("`function` must be finite on [-radius, radius], got nan or inf.")
    t = chebyshev.chebfit(nodes, values, degree)
    # Rounding in a coefficient that should vanish would grow like 2^D among the powers.
    t[np.abs(t) < 1e-14 * np.max(np.abs(t))] = 0.0
    powers = np.asarray(chebyshev.cheb2poly(t), np.float64)
    powers = np.pad(powers, (0, degree + 1 - len(powers)))
    grid = np.linspace(-1.0, 1.0, 20 * (degree + 1) + 1)
    error = np.abs(chebyshev.chebval(grid, t) - np.asarray(function(float(radius) * grid)))
    series = taylor_series(powers / float(radius) ** np.arange(degree + 1))
    return ChebyshevSeries(t, series, float(np.max(error)), float(radius))
