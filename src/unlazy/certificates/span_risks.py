# SPDX-License-Identifier: Apache-2.0
"""How close a span comes to many targets when its functions are known up to an error."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float64, Int

MARGIN = 4.0  # times the error: a smaller singular value may be zero
_ROUNDING = 100 * 2.0**-52  # of sums of squares of coefficients, which are near 1
_STEP = 10.0  # ratio of neighbouring values of a parameter that is optimised over a grid


class NoisySpan(NamedTuple):
    r"""A span of functions, scaled to unit norm, that are known up to an error.

    The true functions are the columns of $B + E$ with $\|E\|_2 \le$ `error`. `rows` are the parity
    coefficients of the left singular vectors of B, one set per row, for the singular values
    `values` that are certainly not zero. The true span may have up to `dropped` further dimensions,
    which may point anywhere: the values of the functions say nothing about them.
    """

    rows: Float64[np.ndarray, "n r"]
    values: Float64[np.ndarray, " r"]
    error: float
    dropped: int

    @property
    def condition(self) -> float:
        """The ratio of the largest singular value to the smallest of `values`."""
        return float(self.values[0] / self.values[-1]) if len(self.values) else 1.0


def risk_bounds(
    span: NoisySpan,
    high: Float64[np.ndarray, "s r"],
    single: Float64[np.ndarray, "d r"],
    sets: Int[np.ndarray, "s k"],
    alpha: float,
) -> tuple[Float64[np.ndarray, "s k"], Float64[np.ndarray, "s k"]]:
    r"""Lower and upper bounds on the least risk of $y = x_i + \alpha\chi_S$, for every error E.

    With $b_j$ the coefficient of y along the singular vector j and $\sigma_j$ its singular value,
    $R = \|y\|^2 - \sum_j b_j^2$ is the least risk in the span of the functions as computed. Any
    weights w have $\|y - (B + E) w\| \ge \|y - B w\| - \delta \|w\|$. By
    $(\rho + c)^2 \le (1 + 1/\tau) \rho^2 + (1 + \tau) c^2$ the true least risk is at least

    $$\frac{\tau}{1 + \tau} \Big( R - \sum_j b_j^2 \frac{\epsilon^2}{\sigma_j^2 - \epsilon^2} \Big),
    \qquad \epsilon^2 = (1 + \tau) \delta^2 < \sigma_r^2,$$

    for every $\tau > 0$, and by the weights of a ridge fit at most

    $$\Big( \sqrt{R + \sum_j f_j^2 b_j^2} + \delta \sqrt{\sum_j (1 - f_j)^2 b_j^2 / \sigma_j^2}
    \Big)^2, \qquad f_j = \frac{\rho^2}{\sigma_j^2 + \rho^2},$$

    for every $\rho \ge 0$; both are optimised over a grid. Where the true span may have further
    dimensions, only 0 is a lower bound, since one of them may be y itself.
    """

    def weighted(g: Float64[np.ndarray, " r"]) -> Float64[np.ndarray, "s k"]:
        """The sum of g_j b_j^2, without the table of all b."""
        mixed = np.take_along_axis((high * g) @ single.T, sets, axis=1)
        base, own = (single**2 @ g)[sets], (high**2 @ g)[:, None]
        return np.maximum(base + 2 * alpha * mixed + alpha**2 * own, 0.0)

    squared, slack = 1 + alpha**2, _ROUNDING * (1 + abs(alpha)) ** 2
    rest = squared - weighted(np.ones(len(span.values)))
    lower = np.zeros_like(rest)
    for tau in _taus(span):
        noise = (1 + tau) * span.error**2
        lost = weighted(noise / (span.values**2 - noise))
        lower = np.maximum(lower, tau / (1 + tau) * (rest - lost - slack))
    upper = np.full_like(rest, squared)
    for ridge in (0.0, *(span.error * _STEP ** np.arange(1, 9))):
        f = ridge**2 / (span.values**2 + ridge**2)
        far = np.sqrt(np.maximum(rest, 0.0) + slack + weighted(f**2))
        moved = span.error * np.sqrt(weighted(((1 - f) / span.values) ** 2))
        upper = np.minimum(upper, (far + moved) ** 2)
    return np.minimum(lower, upper), upper


def _taus(span: NoisySpan) -> list[float]:
    """From 1 to where the noise would be half of the smallest square; none if nothing is proved."""
    if span.dropped:
        return []
    if not len(span.values) or span.error == 0:
        return [1 / _ROUNDING]
    ratio = float(span.values[-1] / span.error)  # the best tau is below, for risks of order 1
    most = min(ratio**2 / 2 - 1, 100 * ratio)
    return [*(_STEP ** np.arange(0.0, np.log10(most))), most]
