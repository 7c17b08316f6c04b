# SPDX-License-Identifier: Apache-2.0
"""The Hermite polynomials that are orthonormal under a standard Gaussian."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import MOST_TERMS, check_count
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.special.gaussian_quadrature import hermite_series


@entry
def hermite(t: Float[Array | np.ndarray, "*shape"], degree: int) -> Float64[np.ndarray, "q *shape"]:
    r"""The probabilists' Hermite polynomials of variance one, from degree 0 to `degree`.

    $$h_0 = 1, \qquad h_1 = t, \qquad \sqrt{k+1}\, h_{k+1} = t\, h_k - \sqrt k\, h_{k-1}, \qquad
    \mathbb E_{g \sim N(0, 1)}[h_j(g)\, h_k(g)] = 1\{j = k\}$$

    For two standard Gaussians of correlation $u$, $\mathbb E[h_j(g)\, h_k(g')] = 1\{j = k\}\, u^k$.

    Source: BL-34, arXiv:1910.01619; RN-54's polynomials over $\sqrt{k!}$, arXiv:1905.10337.

    Args:
        t: where to evaluate them.
        degree: the highest.

    Returns:
        The values in float64, the degree on a new first axis.

    Raises:
        ValueError: `degree` is negative.

    Example:
        >>> print(hermite(np.array([0.0, 2.0]), 2) * np.sqrt([[1], [1], [2]]))
        [[ 1.  1.]
         [ 0.  2.]
         [-1.  3.]]
    """
    check_count(degree, "degree", least=0, most=MOST_TERMS)
    t = np.asarray(t, np.float64)
    rows = [np.ones_like(t), t]
    for k in range(1, degree):
        rows.append((t * rows[k] - math.sqrt(k) * rows[k - 1]) / math.sqrt(k + 1))
    return np.stack(rows[: degree + 1])


@entry
def hermite_coefficients(
    function: Callable[[Array], Array], degree: int
) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of a function in the orthonormal Hermite polynomials, up to `degree`.

    $$\eta_k = \mathbb E_{g \sim N(0, 1)}[f(g)\, h_k(g)]$$

    to an absolute error of 1e-14 for functions of moderate size; a kink at 0 is allowed.

    Source: BL-34 and BL-45 ($\eta$), arXiv:1910.01619.

    Args:
        function: applied entry by entry to a float64 JAX array.
        degree: the highest, at most 511.

    Raises:
        ValueError: `degree` is negative or above 511.

    Example:
        >>> print(hermite_coefficients(lambda z: jnp.maximum(z, 0), 2) * np.sqrt(2 * np.pi))
        [1.         1.25331414 0.70710678]
    """
    check_count(degree, "degree", least=0, most=MOST_TERMS)
    if degree > 511:
        raise ValueError(f"`degree` must be at most 511, got degree={degree}.")
    with float64():
        series = hermite_series(function, jnp.ones(1, jnp.float64), degree + 1)
        return np.asarray(series.coefficients)[:, 0]
