# SPDX-License-Identifier: Apache-2.0
"""Indicator functions that are bounded, clipped as little as the error asked for allows."""

import math

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import as_number, check_positive
from unlazy.papers.allenzhu_li_liang2019.indicator_quadrature import (
    indicator_means,
    indicator_table,
)
from unlazy.papers.allenzhu_li_liang2019.indicators import IndicatorFunction, indicator_function
from unlazy.papers.shared import PowerSeries

_STEP, _STEPS = 0.125, 96  # limits to choose from: beyond 12 a Gaussian never comes
_POINTS = 9  # inner products at which a bias is measured; it is largest at the ends, as a rule

Values = Float64[np.ndarray, " n"]


def indicator_bias(
    h: IndicatorFunction, phi: PowerSeries | None = None, *, reach: float = 1.0
) -> float:
    r"""How far the function that h builds is from the one that was asked for.

    $$\phi_\varepsilon(z) = \mathbb E[1\{\langle w, x\rangle + b \ge 0\}\, h(\langle w, w^*\rangle,
    b)], \qquad \max_{|z| \le r} |\phi_\varepsilon(z) - \phi(z)| \Big/ \max_{|z| \le r} |\phi(z)|$$

    by quadrature, at evenly spaced points that include both ends. Infinite where only $\phi$
    vanishes.

    Source: LG-40 and LG-44, arXiv:1811.04918 Lemmas 6.3 and 6.4: their $\varepsilon$.

    Args:
        h: from `indicator_function`, clipped or not.
        phi: the function asked for; None for that of h.
        reach: r, the largest inner product.
    """
    z = np.linspace(-reach, reach, _POINTS)
    clipped = np.any(h.factors[1:][np.isfinite(h.limits[1:])])
    # Without clipping it is the series of phi, cut at the degree of h.
    built = (
        indicator_means(h, z) if clipped else np.polynomial.polynomial.polyval(z, h.coefficients)
    )
    return _share(built, np.asarray((h.phi if phi is None else phi)(z)))


def _share(built: Values, wanted: Values) -> float:
    largest, size = float(np.max(np.abs(built - wanted))), float(np.max(np.abs(wanted)))
    if size == 0:
        return 0.0 if largest < 1e-12 else math.inf  # rounding of the quadrature
    return largest / size


def bounded_indicator(
    phi: PowerSeries,
    *,
    error: int | float,
    limit: int | float | None = None,
    reach: float = 1.0,
) -> IndicatorFunction:
    r"""An indicator function with a clipped at the least limit whose bias is at most `error`.

    Without even terms the bias b is not needed, and the bound is far lower. Limits are multiples of
    1/8; the bound grows with them, fast where the degree is high.

    Source: LG-44, arXiv:1811.04918 Lemma 6.4, which needs |h| <= C.

    Args:
        phi: the function.
        error: the largest `indicator_bias` allowed; not looked at with a limit.
        limit: the limit itself, whatever its bias.
        reach: the largest inner product.

    Raises:
        ValueError: no limit reaches that error.
    """
    h = indicator_function(phi, method="bias-free" if _is_odd(phi) else "minimum-norm")
    if limit is not None:
        check_positive(limit, "limit")
        return h.clipped(limit)
    error = as_number(error, "error")
    check_positive(error, "error")

    z = np.linspace(-reach, reach, _POINTS)
    table, wanted = indicator_table(h, z, _STEP), np.asarray(phi(z))

    def fits(steps: int) -> bool:
        return _share(table.means(h.clipped(_STEP * steps)), wanted) <= error

    low, high = 0, _STEPS
    if not fits(high):
        raise ValueError(
            f"`error` must be within reach of float64, got error={error:g} for {phi.name!r}. "
            "Ask for a larger error, or pass `limit`."
        )
    while high - low > 1:  # the error falls with the limit, but for wiggles of its own size
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return h.clipped(_STEP * high)


def _is_odd(phi: PowerSeries) -> bool:
    """Whether there are odd terms only, besides a constant."""
    return not np.any(phi.taylor(phi.tail_degree(1e-10))[2::2])
