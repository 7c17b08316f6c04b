# SPDX-License-Identifier: Apache-2.0
"""Example 6.4's contrast: the label energy of a function beside its complexity in another paper."""

import equinox as eqx

from unlazy.core.checks import Number, as_number
from unlazy.core.entries import entry
from unlazy.papers.arora2019.learnable_functions import LearnableBound, learnable
from unlazy.papers.arora2019.target_functions import RidgeFunction
from unlazy.papers.shared import SeriesComplexity, series_complexity


class ComplexityContrast(eqx.Module):
    """What two papers ask of one function; each may be infinite where the other is not."""

    bound: LearnableBound  # on the root of the label energy
    complexity: SeriesComplexity  # C_s, for samples, and C_eps, for the width


@entry
def complexity_contrast(
    function: RidgeFunction,
    *,
    epsilon: Number = 0.1,
    constant: Number = 1e4,
    exponent: Number = 1.75,
) -> ComplexityContrast:
    r"""How costly a function is here and in Allen-Zhu, Li and Liang 2019.

    For $g(x) = \phi(\beta^\top x) = \sum_p c_p (\beta^\top x)^p$ with $b = \|\beta\|$,

    $$\sqrt{y^\top H^{-1} y} \le \sum_p k_p |c_p|\, b^p \quad (\texttt{learnable}), \qquad
    C_s = C^* \sum_p (p+1)^\kappa |c_p|\, b^p,$$

    $$C_\varepsilon = \sum_p \Big((C^* b)^p
    + \Big(\frac{\sqrt{\log(1/\varepsilon)}}{\sqrt p}\, C^* b\Big)^p\Big) |c_p|$$

    The first, squared, and the square of $C_s$ are sample sizes for an error of 1; $C_\varepsilon$
    is a width. For $z \arctan(z/2)$ the series converges up to $|z| = 2$ only, so that
    $C_\varepsilon$ is infinite as soon as $C^* b \ge 2$, while the first is at most $4b^2$ for
    $b \le 1$. The contrast has another side: an odd power from 3 on has a finite $C_s$ and
    $C_\varepsilon$, and no bound here.

    Source: AR-19g, arXiv:1901.08584 Example 6.4; LG-5, arXiv:1811.04918.

    Args:
        function: `Power`, `Cosine`, `Arctan`, or what else has a `profile`.
        epsilon: $\varepsilon$ of $C_\varepsilon$.
        constant: $C^*$, of which the other paper says that it is sufficiently large, such as 1e4.
        exponent: $\kappa$.

    Raises:
        TypeError: `function` is no function of one linear form.

    Example:
        >>> import numpy as np
        >>> from unlazy.papers.arora2019 import Arctan
        >>> found = complexity_contrast(Arctan(np.array([0.6, 0.8])))
        >>> print(round(found.bound.tensor, 3), found.complexity.log10_c_eps)
        1.281 inf
    """
    if not isinstance(function, RidgeFunction):
        raise TypeError(
            "`function` must be a function of one linear form, such as Power, Cosine or Arctan, "
            f"got function of type {type(function).__name__}. A sum has no complexity of its own: "
            "contrast its terms."
        )
    options = {"epsilon": epsilon, "constant": constant, "exponent": exponent}
    numbers = {name: as_number(value, name) for name, value in options.items()}
    return ComplexityContrast(
        bound=learnable(function), complexity=series_complexity([function.profile()], **numbers)
    )
