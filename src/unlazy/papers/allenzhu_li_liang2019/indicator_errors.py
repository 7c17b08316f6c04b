# SPDX-License-Identifier: Apache-2.0
"""Lemma 6.3, its error: measured by quadrature, and kept below a bound by the choice of clipping.

Sampling would mislead: the functions h have heavy tails.
"""

import math
from typing import NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64
from scipy.special import ndtr

from unlazy.core.checks import as_number, check_positive
from unlazy.core.entries import entry
from unlazy.papers.allenzhu_li_liang2019.hermite_polynomials import window_ends
from unlazy.papers.allenzhu_li_liang2019.indicator_to_function import (
    IndicatorFunction,
    indicator_function,
)
from unlazy.papers.shared import PowerSeries

_REACH = 14.0  # standard deviations: a polynomial of degree 40 there still weighs nothing
_NODES = 16  # per panel
_GRADED = np.array([-24, -12, -6, -3, -1.5, 0, 1.5, 3, 6, 12, 24])  # in widths of the step
_STEP, _STEPS = 0.125, 96  # limits to choose from; a Gaussian never exceeds 12
_POINTS = 9  # inner products at which a bias is measured; it is largest at the ends, as a rule

Values = Float64[np.ndarray, " n"]


class IndicatorError(eqx.Module):
    """The mean of indicator times h at points, and how far it is from the function."""

    x1: Values
    values: Values
    error: Values
    max_error: float
    energy: float  # E h^2 by quadrature, truncation included


@entry
def indicator_error(h: IndicatorFunction, x1: Float[Array | np.ndarray, " n"]) -> IndicatorError:
    r"""Measure an indicator function against the function that it stands for.

    $$\mathbb E[1\{\alpha + b \ge 0\}\, h(\alpha_1, b)] = \iint \varphi(a)\, \varphi(b)\, h(a, b)\,
    \Phi\Big( \frac{a x_1 + b}{\sqrt{1 - x_1^2}} \Big)\, da\, db$$

    at inner products $x_1 = \langle w^*, x\rangle$ in [-1, 1], by Gauss-Legendre panels that break
    at every window and around the step of $\Phi$; at $x_1 = \pm 1$ it is an indicator.

    Source: LG-29 and LG-40, arXiv:1811.04918 Lemma 6.3.

    Example:
        >>> h = indicator_function("sin", degree=11)
        >>> print(indicator_error(h, np.array([-0.5, 0.9])).max_error < 1e-9)
        True
    """
    x1 = np.asarray(x1, np.float64)
    if x1.ndim != 1 or not (np.abs(x1) <= 1).all():
        raise ValueError(f"`x1` must be a vector with entries in [-1, 1], got x1={x1}.")
    values = indicator_means(h, x1)
    error = values - h.phi(x1)
    a, b = _panels(_edges(h)[None, :]), _bias_rule(h)
    # The columns share their a: one product, as if b varied along the rows.
    H = np.sqrt(np.abs(a.weights[0])) * h._polynomials(a.nodes[0])
    B = np.sqrt(np.abs(b.weights)) * h._windows(b.nodes)
    square = (h.factors[:, None] * H).T @ B
    largest = float(np.max(np.abs(error), initial=0.0))
    return IndicatorError(x1, values, error, largest, float(np.sum(square**2)))


def indicator_bias(
    h: IndicatorFunction, phi: PowerSeries | None = None, *, reach: float = 1.0
) -> float:
    r"""How far the function that h builds is from `phi`, by default the function it stands for.

    $$\phi_\varepsilon(z) = \mathbb E[1\{\langle w, x\rangle + b \ge 0\}\, h(\langle w, w^*\rangle,
    b)], \qquad \max_{|z| \le r} |\phi_\varepsilon(z) - \phi(z)| \Big/ \max_{|z| \le r} |\phi(z)|$$

    by quadrature, at evenly spaced points up to `reach` that include both ends. Infinite where only
    $\phi$ vanishes.

    Source: LG-40 and LG-44, arXiv:1811.04918 Lemmas 6.3 and 6.4: their $\varepsilon$.
    """
    z = np.linspace(-reach, reach, _POINTS)
    clipped = np.any(h.factors[1:][np.isfinite(h.limits[1:])])
    # Without clipping it is the series of phi, cut at the degree of h.
    built = (
        indicator_means(h, z) if clipped else np.polynomial.polynomial.polyval(z, h.coefficients)
    )
    return _share(built, np.asarray((h.phi if phi is None else phi)(z)))


def bounded_indicator(
    phi: PowerSeries, *, error: int | float, limit: int | float | None = None, reach: float = 1.0
) -> IndicatorFunction:
    r"""An indicator function with a clipped at the least limit whose bias is at most `error`.

    Without even terms the bias b is not needed, and the bound is far lower. Limits are multiples of
    1/8; the bound grows with them, fast where the degree is high. A `limit` that is given is used
    whatever its bias.

    Source: LG-44, arXiv:1811.04918 Lemma 6.4, which needs |h| <= C.
    """
    is_odd = not np.any(phi.taylor(phi.tail_degree(1e-10))[2::2])  # besides a constant
    h = indicator_function(phi, method="bias-free" if is_odd else "minimum-norm")
    if limit is not None:
        check_positive(limit, "limit")
        return h.clipped(limit)
    error = as_number(error, "error")
    check_positive(error, "error")

    z = np.linspace(-reach, reach, _POINTS)
    table, wanted = indicator_table(h, z, _STEP), np.asarray(phi(z))

    def fits(steps: int) -> bool:
        return _share(table.means(h.clipped(_STEP * steps)), wanted) <= error

    low, high = 0, _STEPS
    if not fits(high):
        raise ValueError(
            f"`error` must be within reach of float64, got error={error:g} for {phi.name!r}. "
            "Ask for a larger error, or pass `limit`."
        )
    while high - low > 1:  # the error falls with the limit, but for wiggles of its own size
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return h.clipped(_STEP * high)


def _share(built: Values, wanted: Values) -> float:
    largest, size = float(np.max(np.abs(built - wanted))), float(np.max(np.abs(wanted)))
    if size == 0:
        return 0.0 if largest < 1e-12 else math.inf  # rounding of the quadrature
    return largest / size


def indicator_means(h: IndicatorFunction, x1: Values) -> Values:
    """The means of indicator times h: the values of the function that h stands for."""
    if h.method == "bias-free":
        # In one variable: given a, the rest of the pre-activation is Gaussian, with b in it.
        a = _panels(_edges(h)[None, :])
        passed = ndtr(a.nodes[0] * x1[:, None] / np.sqrt(2 - x1[:, None] ** 2))
        return passed @ (a.weights[0] * (h.factors @ h._polynomials(a.nodes[0])))
    b = _bias_rule(h)
    return np.array([_mean(h, b, float(x)) for x in x1])


class IndicatorTable(NamedTuple):
    """The part of `indicator_means` that does not depend on the limit, for limits on a grid.

    The choice of a limit tries many of them, and integrates over b once.
    """

    a: Float64[np.ndarray, " q"]
    weights: Float64[np.ndarray, "n i q"]  # of the i-th polynomial at a, with the mean over b

    def means(self, h: IndicatorFunction) -> Values:
        """The function that h stands for, with any limit on the grid."""
        return np.einsum("i,iq,niq->n", h.factors, h._polynomials(self.a), self.weights)


def indicator_table(h: IndicatorFunction, x1: Values, step: float) -> IndicatorTable:
    """The table of h at these points, for limits that are multiples of `step`."""
    edges = np.arange(-_REACH, _REACH + step / 2, step)
    a = _panels(edges[None, :], nodes=4)  # of short panels
    nodes, found = a.nodes[0], []
    for x in x1:
        s = math.sqrt(max(1 - x**2, 1e-16))  # at both ends the step is all but sharp
        if h.method == "bias-free":
            shares = np.tile(ndtr(nodes * x / math.sqrt(2 - x**2)), (h.degree + 1, 1))
        else:
            b = _bias_rule(h, finest=s)
            shares = (h._windows(b.nodes) * b.weights) @ ndtr((nodes * x + b.nodes[:, None]) / s)
        found.append(shares * a.weights[0])
    return IndicatorTable(nodes, np.stack(found))


class _Rule(NamedTuple):
    nodes: np.ndarray
    weights: np.ndarray  # the Gaussian density included


def _bias_rule(h: IndicatorFunction, finest: float = 1.0) -> _Rule:
    """A rule over b with panels that break at every window and resolve a step of width `finest`."""
    if h.method == "centered":  # indicators without a bias
        return _Rule(np.zeros(1), np.ones(1))
    windows = window_ends(h.degree) if h.method == "paper" else []
    edges = np.unique([*np.arange(-_REACH, _REACH + 1), *windows])
    fine = np.arange(-_REACH, _REACH, max(4 * finest, 0.05)) if finest < 0.25 else edges
    b = _panels(np.unique([*edges, *fine])[None, :])
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


def _panels(edges: np.ndarray, nodes: int = _NODES) -> _Rule:
    """Gauss-Legendre between consecutive edges, row by row, weighted by the Gaussian density."""
    places, weights = np.polynomial.legendre.leggauss(nodes)
    half = np.diff(edges, axis=1)[:, :, None] / 2
    middle = (edges[:, 1:] + edges[:, :-1])[:, :, None] / 2
    points = (middle + half * places).reshape(len(edges), -1)
    density = np.exp(-(points**2) / 2) / math.sqrt(2 * math.pi)
    return _Rule(points, (half * weights).reshape(len(edges), -1) * density)


def _edges(h: IndicatorFunction) -> np.ndarray:
    limits = h.limits[h.limits < _REACH]
    return np.unique([*np.arange(-_REACH, _REACH + 1), *limits, *(-limits)])
