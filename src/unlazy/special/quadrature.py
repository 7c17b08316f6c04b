# SPDX-License-Identifier: Apache-2.0
"""Quadrature rules for a standard Gaussian and for one coordinate of a uniform unit vector.

The rules for general functions are Gauss-Legendre on panels: panels break at 0, where most
activations have their kink, and shrink towards it, so that a function of `s * g` is resolved for
any scale `s`. Against a pole at distance τ the error falls like exp(-cτN) in the number N of nodes,
where that of Gauss-Hermite falls like exp(-cτ√N).
"""

import functools
import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float64

from unlazy.core.checks import MOST_IN_TABLE, check_count
from unlazy.core.entries import entry

LEGENDRE = np.polynomial.legendre.leggauss(16)  # points and weights of a panel
_REACH = 13.0  # standard deviations; beyond lies 1e-37 of the weight
_PANEL = 0.5  # standard deviations: 11 radians of the fastest Hermite function in use
_WAVE = 8.0  # radians of the fastest polynomial in a panel, which 16 nodes resolve to rounding
_HALVINGS = 18  # of the innermost panel, for functions steep at 0; of a Gaussian down to 2e-6


class Rule(NamedTuple):
    r"""Nodes and weights with $\mathbb E f(t) = \sum_m w_m f(t_m)$; symmetric about 0."""

    nodes: Float64[np.ndarray, " q"]
    weights: Float64[np.ndarray, " q"]


@functools.cache
def gaussian_rule() -> Rule:
    r"""A rule for $\mathbb E_{g \sim N(0, 1)} f(g)$ that allows a kink, or steep slopes, at 0.

    Example:
        >>> rule = gaussian_rule()
        >>> print(f"{rule.weights @ np.maximum(rule.nodes, 0) ** 2:.15f}")
        0.500000000000000
    """
    nodes, widths = _panels(gaussian_edges())
    return _mirrored(nodes, widths * (np.exp(-(nodes**2) / 2) / math.sqrt(2 * math.pi)))


@entry
@functools.lru_cache(maxsize=64)
def zonal_rule(d: int, degree: int = 32) -> Rule:
    r"""A rule for $t = u^\top x$, x uniform on the unit sphere, with a kink allowed at 0.

    $$\mathbb E f(t) = Z_d \int_{-1}^1 f(t)\, (1 - t^2)^{(d-3)/2}\, dt
    = Z_d \int_{-\pi/2}^{\pi/2} f(\sin\varphi) \cos^{d-2}\varphi\, d\varphi$$

    The panels divide the angle, where nothing is singular for any d, and resolve polynomials up to
    `degree`. For polynomials alone `gegenbauer_rule` needs far fewer nodes.

    Source: BL-35, arXiv:1910.01619; NB-10, arXiv:2206.03688.

    Example:
        >>> rule = zonal_rule(5)
        >>> print(f"{rule.weights @ np.maximum(rule.nodes, 0):.12f}")  # 3/16
        0.187500000000
    """
    check_count(d, "d", least=2)
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    spread = 1 / math.sqrt(d)
    reach = min(math.pi / 2, _REACH * spread)
    panels = math.ceil(reach / min(_PANEL * spread, _WAVE / (degree + 1)))
    angle, widths = _panels(_edges(reach / panels * np.arange(1, panels + 1)))
    weights = widths * np.cos(angle) ** (d - 2)
    # Their sum is the normalisation, to rounding, and needs no Gamma functions of d/2.
    return _mirrored(np.sin(angle), weights / (2 * weights.sum()))


@entry
@functools.lru_cache(maxsize=64)
def gegenbauer_rule(d: int, nodes: int) -> Rule:
    r"""The Gauss rule for $t = u^\top x$: exact for polynomials of degree up to `2 nodes - 1`.

    Nodes are the eigenvalues of the Jacobi matrix, whose diagonal is zero and whose squared
    off-diagonal entries are

    $$\beta_l^2 = \frac{l (l + d - 3)}{(2l + d - 2)(2l + d - 4)}, \qquad l = 1, 2, \dots$$

    Source: NB-10, arXiv:2206.03688; Golub and Welsch, Mathematics of Computation 23 (1969).

    Example:
        >>> rule = gegenbauer_rule(30, 3)
        >>> print(f"{rule.weights @ rule.nodes**4 * 30 * 32:.12f}")  # 3 / (d (d + 2))
        3.000000000000
    """
    check_count(d, "d", least=2)
    check_count(nodes, "nodes", most=MOST_IN_TABLE)
    l = np.arange(1, nodes)
    with np.errstate(invalid="ignore"):
        square = l * (l + d - 3) / ((2 * l + d - 2) * (2 * l + d - 4))
    if d == 2:
        square[:1] = 0.5  # where the formula is 0/0
    values, vectors = np.linalg.eigh(np.diag(np.sqrt(square), 1) + np.diag(np.sqrt(square), -1))
    weights = vectors[0] ** 2
    # Symmetric to the last bit, so that odd functions integrate to zero.
    return Rule((values - values[::-1]) / 2, (weights + weights[::-1]) / 2)


def gaussian_edges() -> Float64[np.ndarray, " p"]:
    """Where the panels of `gaussian_rule` right of 0 begin, and where the last ends."""
    return _edges(np.arange(_PANEL, _REACH + _PANEL, _PANEL))


def _edges(outer: Float64[np.ndarray, " p"]) -> Float64[np.ndarray, " q"]:
    """The given edges right of 0, and the innermost panel halved again and again."""
    return np.concatenate([[0.0], outer[0] * 2.0 ** np.arange(-_HALVINGS, 0), outer])


def _panels(edges: Float64[np.ndarray, " p"]) -> Rule:
    """Gauss-Legendre on every panel."""
    points, weights = LEGENDRE
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    nodes = (middle[:, None] + half[:, None] * points).ravel()
    return Rule(nodes, (half[:, None] * weights).ravel())


def _mirrored(nodes: Float64[np.ndarray, " q"], weights: Float64[np.ndarray, " q"]) -> Rule:
    return Rule(np.concatenate([-nodes[::-1], nodes]), np.concatenate([weights[::-1], weights]))
