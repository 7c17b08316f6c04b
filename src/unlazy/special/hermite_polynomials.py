# SPDX-License-Identifier: Apache-2.0
"""The Hermite polynomials that are orthonormal under a standard Gaussian, and series in them."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import MOST_TERMS, check_count
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.special.quadrature import LEGENDRE, gaussian_edges, gaussian_rule

_BATCH = 2048  # scales at once; bounds the temporary memory


@entry
def hermite(t: Float[Array | np.ndarray, "*shape"], degree: int) -> Float64[np.ndarray, "q *shape"]:
    r"""The probabilists' Hermite polynomials of variance one, from degree 0 to `degree`.

    $$h_0 = 1, \qquad h_1 = t, \qquad \sqrt{k+1}\, h_{k+1} = t\, h_k - \sqrt k\, h_{k-1}, \qquad
    \mathbb E_{g \sim N(0, 1)}[h_j(g)\, h_k(g)] = 1\{j = k\}$$

    For two standard Gaussians of correlation $u$, $\mathbb E[h_j(g)\, h_k(g')] = 1\{j = k\}\, u^k$.
    The degree is on a new first axis of the result.

    Source: BL-34, arXiv:1910.01619; RN-54's polynomials over $\sqrt{k!}$, arXiv:1905.10337.

    Example:
        >>> print(hermite(np.array([0.0, 2.0]), 2) * np.sqrt([[1], [1], [2]]))
        [[ 1.  1.]
         [ 0.  2.]
         [-1.  3.]]
    """
    check_count(degree, "degree", least=0, most=MOST_TERMS)
    t = np.asarray(t, np.float64)
    return _recurrence(t, np.ones_like(t), degree + 1)


@entry
def hermite_coefficients(
    function: Callable[[Array], Array], degree: int
) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of a function in the orthonormal Hermite polynomials, up to `degree`.

    $$\eta_k = \mathbb E_{g \sim N(0, 1)}[f(g)\, h_k(g)]$$

    to an absolute error of 1e-14 for functions of moderate size; a kink at 0 is allowed.
    `function` is applied entry by entry to a float64 JAX array; `degree` is at most 511.

    Source: BL-34 and BL-45 ($\eta$), arXiv:1910.01619.

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


class HermiteSeries(NamedTuple):
    """The expansion of a function at each scale; the squares are not sums over coefficients."""

    coefficients: Float[Array, "degree n"]
    square: Float[Array, " n"]  # E f(s g)^2
    even_square: Float[Array, " n"]  # the part of `square` that the even part of f has


@entry
def hermite_series(
    function: Callable[[Array], Array],
    scale: Float[Array, " n"],
    degree: int,
    *,
    kink: int | float = 0.0,
) -> HermiteSeries:
    r"""Coefficients of $f(s_i g)$ in the orthonormal Hermite polynomials, below `degree`.

    $$a_{ki} = \mathbb E_{g \sim N(0, 1)}\big[f(s_i g)\, h_k(g)\big], \qquad
    h_k = \mathrm{He}_k / \sqrt{k!}$$

    so that $\mathbb E f(s_i g)^2 = \sum_k a_{ki}^2$, the sum running over all k.

    Source: RN-54's polynomials, arXiv:1905.10337, normalised to variance one.

    Args:
        function: applied entry by entry.
        scale: the standard deviations $s_i$.
        degree: how many coefficients, at most 512.
        kink: where the function has a kink or a jump besides 0. One that is not named costs digits:
            a jump 2 of them, a jump of the slope 4 of them.

    Example:
        >>> with float64():
        ...     series = hermite_series(jnp.square, jnp.array([2.0]), 4)
        >>> print(np.abs(series.coefficients[:, 0]).round(6))  # 4 h_0 + 4 sqrt(2) h_2
        [4.       0.       5.656854 0.      ]
    """
    rule = gaussian_rule()
    nodes = jnp.asarray(rule.nodes, scale.dtype)
    weights = jnp.asarray(rule.weights, scale.dtype)
    basis = jnp.asarray(_weighted_basis(degree), scale.dtype)

    def one(s: Float[Array, ""]) -> HermiteSeries:
        values = function(s * nodes)
        even = (values + values[::-1]) / 2
        coefficients = jnp.matmul(basis, values, precision=jax.lax.Precision.HIGHEST)
        series = HermiteSeries(
            coefficients, jnp.sum(weights * values**2), jnp.sum(weights * even**2)
        )
        if kink == 0:
            return series
        return jax.tree.map(jnp.add, series, _split_panel(function, s, degree, kink))

    series = jax.lax.map(one, scale, batch_size=_BATCH)
    return series._replace(coefficients=series.coefficients.T)


def _split_panel(
    function: Callable[[Array], Array], s: Float[Array, ""], degree: int, kink: int | float
) -> HermiteSeries:
    """What the rule gains when the panel that the kink of f(s g) lies in is split there."""
    half = gaussian_edges()
    edges = jnp.asarray(np.concatenate([-half[:0:-1], half]), s.dtype)
    place = jnp.clip(kink / jnp.where(s > 0, s, 1), edges[0], edges[-1])
    panel = jnp.clip(jnp.searchsorted(edges, place) - 1, 0, len(edges) - 2)
    low, high = edges[panel], edges[panel + 1]
    points, weight = (jnp.asarray(v, s.dtype) for v in LEGENDRE)
    # The two parts count, and the whole panel, which the rule has, is taken away.
    pieces = [(low, place, 1), (place, high, 1), (low, high, -1)]
    nodes = jnp.concatenate([(a + b) / 2 + (b - a) / 2 * points for a, b, _ in pieces])
    weights = jnp.concatenate([sign * (b - a) / 2 * weight for a, b, sign in pieces])
    weights = weights * jnp.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
    values, mirrored = function(s * nodes), function(-s * nodes)
    envelope = jnp.exp(-(nodes**2) / 4)  # as in _weighted_basis
    shares = weights * values / envelope

    def step(carry, k):
        before, here = carry
        after = (nodes * here - jnp.sqrt(k) * before) / jnp.sqrt(k + 1)
        return (here, after), jnp.sum(shares * here)

    orders = jnp.arange(degree, dtype=s.dtype)
    _, coefficients = jax.lax.scan(step, (jnp.zeros_like(nodes), envelope), orders)
    square = jnp.sum(weights * values**2)
    # The even part's square is half of f(z)^2 + f(z) f(-z), whose kinks are at both signs.
    return HermiteSeries(coefficients, square, square / 2 + jnp.sum(weights * values * mirrored))


@functools.lru_cache(maxsize=8)
def _weighted_basis(degree: int) -> Float64[np.ndarray, "degree q"]:
    """Row k holds w_m h_k(g_m), from the three-term recurrence."""
    nodes, weights = gaussian_rule()
    # Half of the Gaussian weight goes into the recurrence: the polynomials alone would overflow.
    envelope = np.exp(-(nodes**2) / 4)
    return _recurrence(nodes, envelope, degree) * (weights / envelope)


def _recurrence(
    t: Float64[np.ndarray, "*shape"], first: Float64[np.ndarray, "*shape"], count: int
) -> Float64[np.ndarray, "count *shape"]:
    """The polynomials times `first`, from degree 0 on."""
    rows = [first, t * first]
    for k in range(1, count - 1):
        rows.append((t * rows[k] - math.sqrt(k) * rows[k - 1]) / math.sqrt(k + 1))
    return np.stack(rows[:count])
