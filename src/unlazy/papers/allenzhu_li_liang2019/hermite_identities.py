# SPDX-License-Identifier: Apache-2.0
"""How Hermite polynomials change when their argument is moved or scaled."""

import math

import numpy as np
from jaxtyping import Float64
from scipy.special import gammaln

from unlazy.core.checks import MOST_IN_TABLE, check_count, check_finite
from unlazy.core.entries import entry


@entry
def hermite_translation(shift: int | float, degree: int) -> Float64[np.ndarray, "q q"]:
    r"""The matrix of $h_i(x + s) = \sum_{k \le i} T_{ik} h_k(x)$, orthonormal polynomials.

    $$T_{ik} = \binom ik s^{i-k} \sqrt{\frac{k!}{i!}}$$

    Source: LG-26, arXiv:1811.04918 Definition A.5, there for $\sqrt{i!}\, h_i$.

    Args:
        shift: s.
        degree: the highest.

    Raises:
        ValueError: `degree` is negative, or `shift` not finite.

    Example:
        >>> print(hermite_translation(2.0, 1))
        [[1. 0.]
         [2. 1.]]
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    check_finite(shift, "shift")
    i, k = np.meshgrid(np.arange(degree + 1), np.arange(degree + 1), indexing="ij")
    gap = np.maximum(i - k, 0)
    # The square root of the factorials in logarithms: 171! is beyond a float.
    size = np.exp((gammaln(i + 1.0) - gammaln(k + 1.0)) / 2 - gammaln(gap + 1.0))
    return np.where(k <= i, size * float(shift) ** gap, 0.0)


@entry
def hermite_scaling(factor: int | float, degree: int) -> Float64[np.ndarray, "q q"]:
    r"""The matrix of $h_i(\gamma x) = \sum_j S_{ij} h_j(x)$, orthonormal polynomials.

    $$S_{i, i-2k} = \gamma^{i-2k} (\gamma^2 - 1)^k \binom{i}{2k} \frac{(2k)!}{k!\, 2^k}
    \sqrt{\frac{(i-2k)!}{i!}}$$

    Its first column is $\mathbb E h_i(\gamma g)$ for a standard Gaussian.

    Source: LG-26, arXiv:1811.04918 Definition A.5, there for $\sqrt{i!}\, h_i$.

    Args:
        factor: $\gamma$.
        degree: the highest.

    Raises:
        ValueError: `degree` is negative, or `factor` not finite.

    Example:
        >>> print(hermite_scaling(2.0, 2)[2] * math.sqrt(2))  # 4x^2 - 1 = 4 (x^2 - 1) + 3
        [3.         0.         5.65685425]
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    check_finite(factor, "factor")
    S = np.zeros((degree + 1, degree + 1))
    gamma = float(factor)
    for i in range(degree + 1):
        for k in range(i // 2 + 1):
            j = i - 2 * k
            size = (math.lgamma(i + 1) - math.lgamma(j + 1)) / 2 - math.lgamma(k + 1)
            S[i, j] = math.exp(size - k * math.log(2)) * gamma**j * (gamma**2 - 1) ** k
    return S
