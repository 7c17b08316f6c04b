# SPDX-License-Identifier: Apache-2.0
"""Section 2, function complexity: C_s and C_eps of a smooth function, by its Taylor series."""

import math

import numpy as np
from jaxtyping import Float

from unlazy.core.checks import Number, as_number
from unlazy.core.entries import entry
from unlazy.papers.shared import SeriesComplexity, series_complexity
from unlazy.papers.shared.smooth_functions import Function, as_series


@entry
def function_complexity(
    *functions: Function | Float[np.ndarray, " q"],
    radius: Number = 1.0,
    epsilon: Number = 0.1,
    constant: Number = 2.0,
    exponent: Number = 1.0,
) -> SeriesComplexity:
    r"""The complexities of a function with a power series, or the largest of several.

    For $\phi(z) = \sum_i c_i z^i$,

    $$C_\varepsilon(\phi, R) = \sum_{i \ge 0} \Big( (C^* R)^i +
    \Big( \frac{\sqrt{\log(1/\varepsilon)}}{\sqrt i}\, C^* R \Big)^i \Big) |c_i|, \qquad
    C_s(\phi, R) = C^* \sum_{i \ge 0} (i+1)^\kappa R^i |c_i|$$

    where the term i = 0 of the first sum is $2|c_0|$. $C_s$ governs how many samples suffice,
    $C_\varepsilon$ how wide the network must be. They are computed in logarithms: for the
    exponential and $C^* = 10^4$ the first has 4343 digits. An infinite series is summed until 50
    terms in a row are 40 nats below the largest.

    The `functions` are names ("sin"), activations, coefficients lowest degree first, or
    `papers.shared.taylor_series("sin", scale=3)`. Use `papers.shared.log_series` for an infinite
    series without a name, `papers.shared.chebyshev_series` where there is none. `radius` is R,
    `constant` is $C^*$ and `exponent` is $\kappa$.

    Source: LG-5, arXiv:1811.04918, with $\kappa = 1.75$ and $C^* = 10^4$; RN-13, arXiv:1905.10337,
    with $\kappa = 1$. "Sufficiently large" is all that is known of $C^*$; 2 suffices for RN-54.

    Returns:
        Both as decimal logarithms. $C_\varepsilon$ is infinite, with the reason, where $C^* R$ is
        beyond the radius of convergence, or so large that 4 million terms are not enough (erf and
        gelu with $C^* = 10^4$).

    Raises:
        ValueError: a number is out of range, a function has no power series that converges on
            [-R, R], or $C_s$ needs more than 4 million terms.
        TypeError: a target or a concept, which has its own: `product_concept(target).complexity()`.

    Example:
        >>> sine = function_complexity("sin", constant=1.0, exponent=1.75)
        >>> print(round(sine.log10_c_eps, 2), round(sine.c_s, 3))
        0.45 5.449
        >>> print(round(function_complexity("exp", constant=1e4).log10_c_eps))
        4343
    """
    R = as_number(radius, "radius", least=0)
    options = {"epsilon": epsilon, "constant": constant, "exponent": exponent}
    series = [as_series(function, "functions") for function in functions]
    for one in series:
        one.check_converges(R)
    return series_complexity(
        series,
        log10_radius=math.log10(R) if R else -math.inf,
        **{name: as_number(value, name) for name, value in options.items()},
    )
