# SPDX-License-Identifier: Apache-2.0
"""Exponents of a quantity in the width, their standard errors, and what they mean in words."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

FLAT = 0.15
"""An exponent of at most this size is one of 0: features move at every width."""

LAZY = -0.35
"""An exponent of at most this is one of -1/2, or below it: features stand still in the limit."""

MOVES = "moves at every width"
STANDS = "lazy in the limit"
GROWS = "grows: unstable"
NEITHER = "neither"
UNDECIDED = "undecided"
STILL = "does not move"
DIVERGED = "diverged"


class Exponent(NamedTuple):
    """The slope of a logarithm against the logarithm of the width, with its standard error."""

    value: float  # nan where it could not be fitted
    error: float  # nan where there are no more points than the line has parameters


def exponent(
    widths: Int[np.ndarray, " widths"],
    values: Float[np.ndarray, "widths seeds"],
    used: Bool[np.ndarray, "widths seeds"],
) -> Exponent:
    r"""Fit $\log v = \alpha \log m + c$ over widths and seeds, by least squares.

    The standard error of $\alpha$ is $\sqrt{s^2 / \sum_i (\log m_i - \overline{\log m})^2}$ with
    $s^2$ the sum of squared residuals over the number of points less 2. It holds the scatter of
    the seeds and the curvature of the points: where there is no power law, it is large.
    """
    used = used & np.isfinite(values) & (values > 0)
    u = np.log(np.broadcast_to(widths[:, None], values.shape)[used])
    v = np.log(values[used])
    if len(np.unique(u)) < 2:
        return Exponent(math.nan, math.nan)
    u, v = u - u.mean(), v - v.mean()
    slope = float(u @ v / (u @ u))
    free = len(u) - 2
    residual = v - slope * u
    error = math.sqrt(float(residual @ residual) / free / float(u @ u)) if free else math.nan
    return Exponent(slope, error)


def in_words(found: Exponent) -> str:
    """The verdict on an exponent, "undecided" where its error of two standard ones spans two.

    Between the verdicts on 0 and on -1/2 lies a band of "neither", into which the error may reach.

    Example:
        >>> in_words(Exponent(-0.49, 0.01)), in_words(Exponent(0.02, 0.01))
        ('lazy in the limit', 'moves at every width')
        >>> in_words(Exponent(-0.25, 0.01)), in_words(Exponent(-0.4, 0.2))
        ('neither', 'undecided')
    """
    error = 0.0 if math.isnan(found.error) else 2 * found.error
    verdict = _of(found.value)
    ends = {_of(found.value - error), _of(found.value + error)}
    return verdict if ends <= {verdict, NEITHER} else UNDECIDED


def rounded(value: float) -> str:
    """Two digits after the point, and no sign before a zero.

    Example:
        >>> rounded(-0.001), rounded(-0.4949)
        ('0.00', '-0.49')
    """
    return f"{round(float(value), 2) + 0.0:.2f}"


def _of(value: float) -> str:
    if value > FLAT:
        return GROWS
    if value >= -FLAT:
        return MOVES
    return STANDS if value <= LAZY else NEITHER
