# SPDX-License-Identifier: Apache-2.0
"""The power series of the first arc-cosine kernel: which powers ReLU features can express."""

import math

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import check_count
from unlazy.core.entries import entry


@entry
def relu_series(degree: int) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of $\mathbb E[\mathrm{relu}(g)\,\mathrm{relu}(g')]$ in the correlation u.

    $$\kappa_1(u) = \frac{\sin\theta + u (\pi - \theta)}{2\pi} = \sum_p c_p u^p, \qquad
    c_0 = \frac1{2\pi}, \quad c_1 = \frac14, \quad
    c_{2l} = \frac{1}{2\pi} \frac{(2l-3)!!}{(2l-2)!!} \frac{1}{(2l-1)\, 2l}$$

    with $u = \cos\theta$. Odd ones from $c_3$ on vanish: random ReLU features do not see those
    powers. The others are at least $1/(2\pi \max(p, 1)^3)$. $c_p$ is the square of the p-th Hermite
    coefficient of ReLU.

    Source: BL-33, arXiv:1910.01619 proof of Lemma 9.

    Args:
        degree: of the last coefficient.

    Returns:
        The `degree + 1` coefficients.

    Raises:
        ValueError: `degree` is negative.

    Example:
        >>> print(relu_series(4) * 48 * np.pi)
        [24.         37.69911184 12.          0.          1.        ]
    """
    check_count(degree, "degree", least=0, most=10**6)
    c = np.zeros(max(degree, 1) + 1)
    c[:2] = 1 / (2 * math.pi), 0.25
    ratio = 1.0  # (2l-3)!!/(2l-2)!!, by its recurrence: the factorials themselves overflow
    for l in range(1, degree // 2 + 1):
        c[2 * l] = ratio / (2 * math.pi * (2 * l - 1) * 2 * l)
        ratio *= (2 * l - 1) / (2 * l)
    return c[: degree + 1]
