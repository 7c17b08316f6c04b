# SPDX-License-Identifier: Apache-2.0
"""What an indicator function achieves, by quadrature: no sampling, whose tails would mislead."""

import math
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import ndtr

from unlazy.construct.indicator import IndicatorFunction
from unlazy.special import indicator_window

_REACH = 14.0  # standard deviations: a polynomial of degree 40 there still weighs nothing
_NODES = 16  # a panel
_GRADED = np.array([-24, -12, -6, -3, -1.5, 0, 1.5, 3, 6, 12, 24])  # in widths of the step


class IndicatorError(eqx.Module):
    """The mean of indicator times h at points, and how far it is from the function."""

    x1: Float64[np.ndarray, " n"]
    values: Float64[np.ndarray, " n"]
    error: Float64[np.ndarray, " n"]
    max_error: float
    energy: float  # E h^2 by quadrature, truncation included


def indicator_error(h: IndicatorFunction, x1: Float[Array | np.ndarray, " n"]) -> IndicatorError:
    r"""Measure an indicator function against the function that it stands for.

    $$\mathbb E[1\{\alpha + b \ge 0\}\, h(\alpha_1, b)] = \iint \varphi(a)\, \varphi(b)\, h(a, b)\,
    \Phi\Big( \frac{a x_1 + b}{\sqrt{1 - x_1^2}} \Big)\, da\, db$$

    by Gauss-Legendre panels that break at every window and around the step of $\Phi$; at
    $x_1 = \pm 1$ it is an indicator.

    Source: LG-29 and LG-40, arXiv:1811.04918 Lemma 6.3.

    Args:
        h: from `indicator_function`.
        x1: the inner products $\langle w^*, x\rangle$, in [-1, 1].

    Raises:
        ValueError: `x1` is not a vector with entries in [-1, 1].

    Example:
        >>> from unlazy.construct import indicator_function
        >>> h = indicator_function("sin", degree=11)
        >>> print(indicator_error(h, np.array([-0.5, 0.9])).max_error < 1e-9)
        True
    """
    x1 = np.asarray(x1, np.float64)
    if x1.ndim != 1 or not (np.abs(x1) <= 1).all():
        raise ValueError(f"`x1` must be a vector with entries in [-1, 1], got x1={x1}.")
    b = _bias_rule(h)
    values = np.array([_mean(h, b, float(x)) for x in x1])
    error = values - h.phi(x1)
    a = _panels(_edges(h)[None, :])
    # The columns share their a: one product, as if b varied along the rows.
    H = np.sqrt(np.abs(a.weights[0])) * h._polynomials(a.nodes[0])
    B = np.sqrt(np.abs(b.weights)) * h._windows(b.nodes)
    square = (h.factors[:, None] * H).T @ B
    largest = float(np.max(np.abs(error), initial=0.0))
    return IndicatorError(x1, values, error, largest, float(np.sum(square**2)))


class _Rule(NamedTuple):
    nodes: np.ndarray
    weights: np.ndarray  # the Gaussian density included


def _bias_rule(h: IndicatorFunction) -> _Rule:
    if h.method == "centered":  # indicators without a bias
        return _Rule(np.zeros(1), np.ones(1))
    b = _panels(_bias_edges(h)[None, :])
    return _Rule(b.nodes[0], b.weights[0])


def _mean(h: IndicatorFunction, b: _Rule, x1: float) -> float:
    s = math.sqrt(max(1 - x1**2, 0.0))
    beta = h._windows(b.nodes) * h.factors[:, None] * b.weights
    total = 0.0
    for k in range(0, len(b.nodes), 128):  # bounds the memory of the polynomials
        part = b.nodes[k : k + 128]
        centre = -part / x1 if x1 else np.full_like(part, np.inf)
        step = centre[:, None] + s / max(abs(x1), 1e-300) * _GRADED if x1 else centre[:, None]
        edges = np.concatenate([np.tile(_edges(h), (len(part), 1)), step], axis=1)
        a = _panels(np.sort(np.clip(edges, -_REACH, _REACH), axis=1))
        z = a.nodes * x1 + part[:, None]
        passed = ndtr(z / s) if s > 0 else (z >= 0).astype(np.float64)
        moments = np.sum(h._polynomials(a.nodes) * (a.weights * passed), axis=2)
        total += float(np.sum(moments * beta[:, k : k + 128]))
    return total


def _panels(edges: np.ndarray) -> _Rule:
    """Gauss-Legendre between consecutive edges, row by row, weighted by the Gaussian density."""
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    middle = (edges[:, 1:] + edges[:, :-1])[:, :, None] / 2
    points = (middle + half * nodes).reshape(len(edges), -1)
    density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    return _Rule(points, (half * weights).reshape(len(edges), -1) * density)


def _edges(h: IndicatorFunction) -> np.ndarray:
    limits = h.limits[h.limits < _REACH]
    return np.unique([*np.arange(-_REACH, _REACH + 1), *limits, *(-limits)])


def _bias_edges(h: IndicatorFunction) -> np.ndarray:
    edges = [e for i in range(1, h.degree + 1) for e in indicator_window(i)]
    edges = edges if h.method == "paper" else []
    return np.unique([*np.arange(-_REACH, _REACH + 1), *edges])
