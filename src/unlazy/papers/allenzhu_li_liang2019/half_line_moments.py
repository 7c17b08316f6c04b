# SPDX-License-Identifier: Apache-2.0
"""Hermite polynomials against the indicator of a half line: what a ReLU's slope can see."""

import functools
import math

import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import ndtr

from unlazy.core.checks import MOST_TERMS, check_count
from unlazy.core.entries import entry
from unlazy.special.hermite_polynomials import hermite

_ROOT = math.sqrt(2 * math.pi)


@entry
def hermite_indicator(
    b: Float[Array | np.ndarray, "*shape"], degree: int
) -> Float64[np.ndarray, "q *shape"]:
    r"""Correlations of Hermite polynomials with an indicator, degree 0 to `degree`.

    For standard Gaussians $\alpha, \alpha_1$ of correlation $x_1$, orthonormal $h_i$ and the
    Gaussian density $\varphi$,

    $$\mathbb E[h_i(\alpha_1)\, 1\{\alpha \ge b\}] = p_i x_1^i, \qquad
    p_i = \frac{h_{i-1}(b)\, \varphi(b)}{\sqrt i}, \qquad p_0 = P(\alpha \ge b)$$

    Source: LG-27, arXiv:1811.04918 Lemmas A.6 and A.7, whose printed sum collapses to this; there
    for $\sqrt{i!}\, h_i$.

    Args:
        b: thresholds.
        degree: the highest.

    Returns:
        The values in float64, the degree on a new first axis.

    Raises:
        ValueError: `degree` is negative.

    Example:
        >>> print(hermite_indicator(np.array([0.0]), 2).ravel() * math.sqrt(2 * math.pi))
        [1.25331414 1.         0.        ]
    """
    check_count(degree, "degree", least=0, most=MOST_TERMS)
    b = np.asarray(b, np.float64)
    p = np.empty((degree + 1, *b.shape))
    p[0] = ndtr(-b)
    if degree:
        root = np.sqrt(np.arange(1, degree + 1)).reshape((-1,) + (1,) * b.ndim)
        p[1:] = hermite(b, degree - 1) * (np.exp(-(b**2) / 2) / _ROOT) / root
    return p


@entry
def truncated_moments(
    b: Float[Array | np.ndarray, "*shape"], degree: int
) -> Float64[np.ndarray, "q *shape"]:
    r"""Moments of a standard Gaussian above a threshold, degree 0 to `degree`.

    $$L_i = \mathbb E[\alpha^i\, 1\{\alpha \ge b\}], \qquad L_0 = P(\alpha \ge b), \qquad
    L_1 = \varphi(b), \qquad L_i = b^{i-1} \varphi(b) + (i-1) L_{i-2}$$

    Source: LG-27, arXiv:1811.04918 Lemma A.6.

    Args:
        b: thresholds.
        degree: the highest.

    Raises:
        ValueError: `degree` is negative.

    Example:
        >>> print(truncated_moments(np.array([0.0]), 2).ravel())
        [0.5        0.39894228 0.5       ]
    """
    check_count(degree, "degree", least=0, most=MOST_TERMS)
    b = np.asarray(b, np.float64)
    density = np.exp(-(b**2) / 2) / _ROOT
    L = [ndtr(-b), density]
    for i in range(2, degree + 1):
        L.append(b ** (i - 1) * density + (i - 1) * L[i - 2])
    return np.stack(L[: degree + 1])


@entry
def indicator_window(i: int) -> tuple[float, float]:
    r"""The interval of biases that the construction of Lemma 6.3 uses for degree i.

    $$|b_0| \le \frac1{2i} \ (i \text{ odd}), \qquad 0 < -b_0 \le \frac1{2i} \ (i \text{ even})$$

    Source: LG-28, arXiv:1811.04918 Claim C.1.

    Example:
        >>> indicator_window(2)
        (-0.25, 0.0)
    """
    check_count(i, "i", most=MOST_TERMS)
    return -1 / (2 * i), (1 / (2 * i) if i % 2 else 0.0)


@entry
@functools.lru_cache(maxsize=256)
def window_moment(i: int) -> float:
    r"""Mean correlation of a Hermite polynomial with an indicator, over the biases of its window.

    $$p'_i = \mathbb E_{b_0 \sim N(0,1)}\big[ p_i(-b_0)\, 1\{b_0 \in q_i\} \big]$$

    with $p_i$ of `hermite_indicator` and $q_i$ of `indicator_window`. The paper's, for
    $\sqrt{i!}\, h_i$, is $\sqrt{i!}$ times as large, and at least $(i-1)!!/(200 i^2)$ in size.

    Source: LG-28, arXiv:1811.04918 Claim C.1.

    Args:
        i: the degree, from 1 on.

    Example:
        >>> print(round(window_moment(1), 6))
        0.14683
    """
    low, high = indicator_window(i)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    b = (low + high) / 2 + (high - low) / 2 * nodes
    density = np.exp(-(b**2) / 2) / _ROOT
    return float(np.sum((high - low) / 2 * weights * density * hermite_indicator(-b, i)[i]))
