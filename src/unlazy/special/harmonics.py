# SPDX-License-Identifier: Apache-2.0
"""Spherical harmonics, their zonal (Gegenbauer) polynomials, and expansions in those."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import MOST_IN_TABLE, MOST_TERMS, check_count, check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.special.quadrature import zonal_rule


@entry
def harmonic_dimension(d: int, k: int) -> int:
    r"""The number of spherical harmonics of degree `k` on the unit sphere of $\mathbb R^d$, d >= 2.

    $$N(d, k) = \binom{d+k-1}{k} - \binom{d+k-3}{k-2}$$

    Source: NB-9, arXiv:2206.03688; the $N(d, k)$ of BL-35, arXiv:1910.01619.

    Example:
        >>> [harmonic_dimension(30, k) for k in range(5)]
        [1, 30, 464, 4930, 40455]
    """
    check_count(d, "d", least=2)
    check_count(k, "k", least=0, most=MOST_TERMS)
    return math.comb(d + k - 1, k) - (math.comb(d + k - 3, k - 2) if k >= 2 else 0)


@entry
def harmonic_count(d: int, k: int) -> int:
    r"""The number of spherical harmonics of degree at most `k` in `d` dimensions.

    $$n_k = \sum_{l \le k} N(d, l) = \binom{d+k-1}{k} + \binom{d+k-2}{k-1}$$

    Source: NB-9, arXiv:2206.03688.

    Example:
        >>> harmonic_count(30, 1), harmonic_count(30, 2), harmonic_count(100, 2)
        (31, 495, 5150)
    """
    check_count(d, "d", least=2)
    check_count(k, "k", least=0, most=MOST_TERMS)
    return math.comb(d + k - 1, k) + (math.comb(d + k - 2, k - 1) if k else 0)


@entry
def gegenbauer(
    t: Float[Array | np.ndarray, "*shape"], d: int, degree: int
) -> Float64[np.ndarray, "q *shape"]:
    r"""The Gegenbauer polynomials of dimension `d` that are 1 at 1, from degree 0 to `degree`.

    $$P_0 = 1, \qquad P_1 = t, \qquad (k + d - 2)\, P_{k+1} = (2k + d - 2)\, t\, P_k - k\, P_{k-1}$$

    orthogonal under the law of a coordinate t of a uniform unit vector (`zonal_rule`), with
    $\mathbb E P_k^2 = 1/N(d, k)$. For d = 2 they are Chebyshev's, for d = 3 Legendre's polynomials.
    At unit vectors u, v, $N(d, k) P_k(u^\top v)$ is the reproducing kernel of degree k.

    The recurrence is stable for t in [-1, 1]. The degree is on a new first axis of the result.

    Source: BL-35, arXiv:1910.01619; NB-10, arXiv:2206.03688.

    Example:
        >>> print(gegenbauer(np.array([0.0, 1.0]), d=3, degree=2))
        [[ 1.   1. ]
         [ 0.   1. ]
         [-0.5  1. ]]
    """
    check_count(d, "d", least=2)
    check_count(degree, "degree", least=0, most=MOST_TERMS)
    t = np.asarray(t, np.float64)
    rows = [np.ones_like(t), t]
    for k in range(1, degree):
        rows.append(((2 * k + d - 2) * t * rows[k] - k * rows[k - 1]) / (k + d - 2))
    return np.stack(rows[: degree + 1])


@entry
def gegenbauer_power(d: int, power: int) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of a power in the Gegenbauer polynomials of dimension `d`.

    $$t^p = \sum_{k \le p} b_k P_k(t), \qquad b_k = N(d, k)\, \mathbb E[t^p P_k(t)]$$

    None of the `power + 1` coefficients is negative, and they sum to one; every other one is zero.
    They come from $(2k+d-2)\, t P_k = (k+d-2) P_{k+1} + k P_{k-1}$, applied `power` times: only
    positive numbers are added, so every digit is right.

    Source: BL-35 ($b_k$), arXiv:1910.01619; NB-40 ($q_l$), arXiv:2206.03688.

    Example:
        >>> print(gegenbauer_power(5, 2))  # t^2 = 1/5 + (4/5) P_2
        [0.2 0.  0.8]
    """
    check_count(d, "d", least=2)
    check_count(power, "power", least=0, most=MOST_TERMS)
    b = np.zeros(power + 1)
    b[0] = 1.0
    for _ in range(power):
        k = np.arange(1, power + 1)
        after = np.zeros(power + 1)
        after[1] = b[0]  # t P_0 = P_1, where for d = 2 the general formula is 0/0
        after[2:] += ((k + d - 2) / (2 * k + d - 2) * b[1:])[:-1]
        after[:-1] += k / (2 * k + d - 2) * b[1:]
        b = after
    return b


@entry
def funk_hecke(
    function: Callable[[Array], Array], d: int, degree: int, *, scale: int | float = 1.0
) -> Float64[np.ndarray, " q"]:
    r"""The Funk-Hecke eigenvalues of a function of one coordinate, up to `degree`.

    $$c_k = \mathbb E[g(r t)\, P_k(t)], \qquad
    \mathbb E_w[P_k(\beta^\top w)\, g(r\, w^\top x)] = c_k P_k(\beta^\top x)$$

    for w uniform on the unit sphere and unit vectors $\beta$, x. Then
    $g(r t) = \sum_k N(d, k)\, c_k P_k(t)$. `function` is g, applied entry by entry to a float64 JAX
    array, and `scale` is r; g may have a kink at 0.

    Source: BL-35 ($\mu_k$, r = 1), arXiv:1910.01619; NB-10 ($c_l$, $r = \sqrt d$),
    arXiv:2206.03688.

    Example:
        >>> print(funk_hecke(lambda t: jnp.maximum(t, 0), d=5, degree=2).round(6))
        [0.1875  0.1     0.03125]
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    check_positive(scale, "scale")
    rule = zonal_rule(d, degree)
    with float64():
        values = np.asarray(function(jnp.asarray(float(scale) * rule.nodes, jnp.float64)))
    check_finite(values, "function")
    return gegenbauer(rule.nodes, d, degree) @ (rule.weights * values)
