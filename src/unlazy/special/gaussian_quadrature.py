# SPDX-License-Identifier: Apache-2.0
"""Expectations over a standard Gaussian, and the Hermite coefficients of a function.

The rule is Gauss-Legendre on panels rather than Gauss-Hermite: panels break at 0, where most
activations have their kink, and shrink towards it, so that a function of `s * g` is resolved for
any scale `s`. Against a pole at distance τ the error falls like exp(-cτN) in the number N of nodes,
where Gauss-Hermite's falls like exp(-cτ√N).
"""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.entries import entry

_NODES = 16  # a panel
_REACH = 13.0  # standard deviations; beyond lies 1e-37 of the weight
_PANEL = 0.5  # wide: 11 radians of the fastest Hermite function in use
_HALVINGS = 18  # of the innermost panel, down to 2e-6
_BATCH = 2048  # rows at once; bounds the temporary memory


class GaussianRule(NamedTuple):
    r"""Nodes and weights with $E f(g) = \sum_m w_m f(g_m)$; symmetric about 0."""

    nodes: Float64[np.ndarray, " q"]
    weights: Float64[np.ndarray, " q"]


@functools.cache
def gaussian_rule() -> GaussianRule:
    r"""A rule for $\mathbb E_{g \sim N(0, 1)} f(g)$ that allows a kink, or steep slopes, at 0.

    Example:
        >>> rule = gaussian_rule()
        >>> print(f"{rule.weights @ np.maximum(rule.nodes, 0) ** 2:.15f}")
        0.500000000000000
    """
    edges = _edges()
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes = (middle[:, None] + half[:, None] * points).ravel()
    density = np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)
    weight = (half[:, None] * weights).ravel() * density
    return GaussianRule(
        np.concatenate([-nodes[::-1], nodes]), np.concatenate([weight[::-1], weight])
    )


def _edges() -> Float64[np.ndarray, " p"]:
    """Where the panels right of 0 begin, and where the last ends."""
    outer = np.arange(_PANEL, _REACH + _PANEL, _PANEL)
    return np.concatenate([[0.0], _PANEL * 2.0 ** np.arange(-_HALVINGS, 0), outer])


class HermiteSeries(NamedTuple):
    """A function at each row's scale, expanded; `square` is not a sum over the coefficients."""

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
        scale: standard deviations, one a row.
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
    half = _edges()
    edges = jnp.asarray(np.concatenate([-half[:0:-1], half]), s.dtype)
    place = jnp.clip(kink / jnp.where(s > 0, s, 1), edges[0], edges[-1])
    panel = jnp.clip(jnp.searchsorted(edges, place) - 1, 0, len(edges) - 2)
    low, high = edges[panel], edges[panel + 1]
    points, weight = (jnp.asarray(v, s.dtype) for v in np.polynomial.legendre.leggauss(_NODES))
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
    rows = [envelope, nodes * envelope]
    for k in range(1, degree - 1):
        rows.append((nodes * rows[k] - math.sqrt(k) * rows[k - 1]) / math.sqrt(k + 1))
    return np.stack(rows[:degree]) * (weights / envelope)
