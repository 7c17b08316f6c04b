# SPDX-License-Identifier: Apache-2.0
"""The power series of H-infinity in the cosine: which degrees the kernel can see."""

import math

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_count
from unlazy.core.entries import entry


@entry
def ntk_series_coefficients(degree: int) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of the power series of H-infinity, from degree 0 to `degree`.

    $$H = \sum_p c_p K^{\circ p}, \qquad c_1 = \frac14, \qquad
    c_{2l} = \frac{1}{2\pi} \frac{(2l-3)!!}{(2l-2)!!} \frac{1}{2l-1}$$

    with $K$ the Gram matrix of unit-norm inputs and $\circ$ the entrywise power. None is negative;
    $c_0$ and all odd ones from $c_3$ on vanish: the kernel does not see those degrees. They sum to
    1/2, but slowly, like $p^{-1/2}$: to evaluate the kernel use `relu_gram`.

    Source: AR-7, arXiv:1901.08584 proof of Theorem 6.1.

    Args:
        degree: of the last coefficient.

    Returns:
        The `degree + 1` coefficients $c_0, c_1, \dots$

    Raises:
        ValueError: `degree` is negative.

    Example:
        >>> print(ntk_series_coefficients(4) * 12 * np.pi)
        [0.         9.42477796 6.         0.         1.        ]
    """
    check_count(degree, "degree", least=0, most=10**6)
    c = np.zeros(degree + 1)
    if degree >= 1:
        c[1] = 0.25
    ratio = 1.0  # (2l-3)!!/(2l-2)!!, by its recurrence: the factorials themselves overflow
    for l in range(1, degree // 2 + 1):
        c[2 * l] = ratio / (2 * math.pi * (2 * l - 1))
        ratio *= (2 * l - 1) / (2 * l)
    return c
