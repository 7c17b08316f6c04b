# SPDX-License-Identifier: Apache-2.0
r"""Definition A.5, Lemmas A.6 and A.7, Claim C.1: Hermite polynomials and indicators.

The polynomials $h_i$ are orthonormal here; the paper's are $\sqrt{i!}\, h_i$.
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import gammaln, ndtr

from unlazy.core.checks import MOST_IN_TABLE, MOST_TERMS, check_count, check_finite
from unlazy.core.entries import entry
from unlazy.special.hermite_polynomials import hermite

Thresholds = Float[Array | np.ndarray, "*shape"]
ByDegree = Float64[np.ndarray, "q *shape"]  # the degree on the first axis

_ROOT = math.sqrt(2 * math.pi)


@entry
def hermite_affine(
    degree: int, *, factor: int | float = 1.0, shift: int | float = 0.0
) -> Float64[np.ndarray, "q q"]:
    r"""The matrix of $h_i(\gamma x + s) = \sum_j A_{ij} h_j(x)$, up to the degree given.

    It is the product $A = TS$ of that of the shift and that of the factor,

    $$T_{ik} = \binom ik s^{i-k} \sqrt{\frac{k!}{i!}}, \qquad
    S_{i, i-2k} = \gamma^{i-2k} (\gamma^2 - 1)^k \binom{i}{2k} \frac{(2k)!}{k!\, 2^k}
    \sqrt{\frac{(i-2k)!}{i!}}$$

    Without a shift its first column is $\mathbb E h_i(\gamma g)$ for a standard Gaussian.

    Source: LG-26, arXiv:1811.04918 Definition A.5, there for $\sqrt{i!}\, h_i$.

    Example:
        >>> print(hermite_affine(1, shift=2.0))
        [[1. 0.]
         [2. 1.]]
        >>> print(hermite_affine(2, factor=2.0)[2] * math.sqrt(2))  # 4x^2 - 1 = 4 (x^2 - 1) + 3
        [3.         0.         5.65685425]
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    check_finite(factor, "factor")
    check_finite(shift, "shift")
    if shift == 0:  # no product with the identity: an entry that overflows would spoil its row
        return _scaling(float(factor), degree)
    if factor == 1:
        return _translation(float(shift), degree)
    return _translation(float(shift), degree) @ _scaling(float(factor), degree)


def _translation(shift: float, degree: int) -> Float64[np.ndarray, "q q"]:
    i, k = np.meshgrid(np.arange(degree + 1), np.arange(degree + 1), indexing="ij")
    gap = np.maximum(i - k, 0)
    # Factorials and powers in logarithms: 171! and 10^309 are beyond a float.
    size = (gammaln(i + 1.0) - gammaln(k + 1.0)) / 2 - gammaln(gap + 1.0)
    return np.where(k <= i, np.exp(size + gap * math.log(abs(shift))) * np.sign(shift) ** gap, 0.0)


def _scaling(gamma: float, degree: int) -> Float64[np.ndarray, "q q"]:
    S = np.zeros((degree + 1, degree + 1))
    for i in range(degree + 1):
        for k in range(i // 2 + 1):
            j = i - 2 * k
            size = (math.lgamma(i + 1) - math.lgamma(j + 1)) / 2 - math.lgamma(k + 1)
            S[i, j] = math.exp(size - k * math.log(2)) * gamma**j * (gamma**2 - 1) ** k
    return S


@entry
def hermite_indicator(b: Thresholds, degree: int) -> ByDegree:
    r"""Correlations of Hermite polynomials with an indicator, degree 0 to `degree`.

    For standard Gaussians $\alpha, \alpha_1$ of correlation $x_1$ and the Gaussian density
    $\varphi$,

    $$\mathbb E[h_i(\alpha_1)\, 1\{\alpha \ge b\}] = p_i x_1^i, \qquad
    p_i = \frac{h_{i-1}(b)\, \varphi(b)}{\sqrt i}, \qquad p_0 = P(\alpha \ge b)$$

    Source: LG-27, arXiv:1811.04918 Lemmas A.6 and A.7, whose printed sum collapses to this; there
    for $\sqrt{i!}\, h_i$.

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
def truncated_moments(b: Thresholds, degree: int) -> ByDegree:
    r"""Moments of a standard Gaussian above a threshold, degree 0 to `degree`.

    $$L_i = \mathbb E[\alpha^i\, 1\{\alpha \ge b\}], \qquad L_0 = P(\alpha \ge b), \qquad
    L_1 = \varphi(b), \qquad L_i = b^{i-1} \varphi(b) + (i-1) L_{i-2}$$

    Source: LG-27, arXiv:1811.04918 Lemma A.6.

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


class IndicatorWindow(NamedTuple):
    """The biases that the construction of Lemma 6.3 uses for a degree, see `indicator_window`."""

    low: float
    high: float
    degree: int

    @property
    def moment(self) -> float:
        r"""Mean correlation of a Hermite polynomial with an indicator, over these biases.

        $$p'_i = \mathbb E_{b_0 \sim N(0,1)}\big[ p_i(-b_0)\, 1\{b_0 \in q_i\} \big]$$

        with $p_i$ of `hermite_indicator` and $q_i$ the window, for $i \ge 1$. The paper's moment is
        $\sqrt{i!}$ times as large, and at least $(i-1)!!/(200 i^2)$ in size.

        Source: LG-28, arXiv:1811.04918 Claim C.1.

        Example:
            >>> print(round(indicator_window(1).moment, 6))
            0.14683
        """
        return _moment(*self)


@entry
def indicator_window(i: int) -> IndicatorWindow:
    r"""The interval of biases that the construction of Lemma 6.3 uses for degree i.

    $$|b_0| \le \frac1{2i} \ (i \text{ odd}), \qquad 0 < -b_0 \le \frac1{2i} \ (i \text{ even})$$

    Source: LG-28, arXiv:1811.04918 Claim C.1.

    Example:
        >>> indicator_window(2)
        IndicatorWindow(low=-0.25, high=0.0, degree=2)
    """
    check_count(i, "i", most=MOST_TERMS)
    return IndicatorWindow(-1 / (2 * i), (1 / (2 * i) if i % 2 else 0.0), i)


def window_ends(degree: int) -> list[float]:
    """The ends of the windows of all degrees from 1 to this one."""
    windows = map(indicator_window, range(1, degree + 1))
    return [end for window in windows for end in (window.low, window.high)]


@functools.lru_cache(maxsize=256)
def _moment(low: float, high: float, i: int) -> float:
    nodes, weights = np.polynomial.legendre.leggauss(40)
    b = (low + high) / 2 + (high - low) / 2 * nodes
    density = np.exp(-(b**2) / 2) / _ROOT
    return float(np.sum((high - low) / 2 * weights * density * hermite_indicator(-b, i)[i]))
