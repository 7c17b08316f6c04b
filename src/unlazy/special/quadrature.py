# SPDX-License-Identifier: Apache-2.0
"""Expectations over one coordinate of a uniform unit vector, and Funk-Hecke coefficients."""

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.core.checks import MOST_IN_TABLE, check_count, check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.special.harmonics import gegenbauer

_NODES = 16  # a panel
_REACH = 13.0  # standard deviations; beyond lies 1e-37 of the weight
_PANEL = 0.5  # standard deviations
_WAVE = 8.0  # radians of the fastest polynomial in a panel, which 16 nodes resolve to rounding
_HALVINGS = 18  # of the innermost panel, for functions steep at 0


class ZonalRule(NamedTuple):
    r"""Nodes and weights with $\mathbb E f(t) = \sum_m w_m f(t_m)$; symmetric about 0."""

    nodes: Float64[np.ndarray, " q"]
    weights: Float64[np.ndarray, " q"]


@entry
@functools.lru_cache(maxsize=64)
def zonal_rule(d: int, degree: int = 32) -> ZonalRule:
    r"""A rule for $t = u^\top x$, x uniform on the unit sphere, with a kink allowed at 0.

    $$\mathbb E f(t) = Z_d \int_{-1}^1 f(t)\, (1 - t^2)^{(d-3)/2}\, dt
    = Z_d \int_{-\pi/2}^{\pi/2} f(\sin\varphi) \cos^{d-2}\varphi\, d\varphi$$

    Gauss-Legendre on panels of the angle, where nothing is singular for any d; they break at 0
    and shrink towards it, as those of `gaussian_rule` do. For polynomials `gegenbauer_rule` needs
    far fewer nodes.

    Source: BL-35, arXiv:1910.01619; NB-10, arXiv:2206.03688.

    Args:
        d: dimension of the space, at least 2.
        degree: of the fastest polynomial that will be integrated; panels are made to resolve it.

    Raises:
        ValueError: `d` is below 2 or `degree` negative.

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
    outer = reach / panels * np.arange(1, panels + 1)
    edges = np.concatenate([[0.0], outer[0] * 2.0 ** np.arange(-_HALVINGS, 0), outer])
    points, weights = np.polynomial.legendre.leggauss(_NODES)
    middle, half = (edges[1:] + edges[:-1]) / 2, np.diff(edges) / 2
    angle = (middle[:, None] + half[:, None] * points).ravel()
    weight = (half[:, None] * weights).ravel() * np.cos(angle) ** (d - 2)
    # Their sum is the normalisation, to rounding, and needs no Gamma functions of d/2.
    weight = weight / (2 * weight.sum())
    nodes = np.sin(angle)
    return ZonalRule(np.concatenate([-nodes[::-1], nodes]), np.concatenate([weight[::-1], weight]))


@entry
@functools.lru_cache(maxsize=64)
def gegenbauer_rule(d: int, nodes: int) -> ZonalRule:
    r"""The Gauss rule of that law: exact for polynomials of degree up to `2 nodes - 1`.

    By the eigenvalues of the Jacobi matrix, whose diagonal is zero and whose squared off-diagonal
    entries are

    $$\beta_l^2 = \frac{l (l + d - 3)}{(2l + d - 2)(2l + d - 4)}, \qquad l = 1, 2, \dots$$

    Source: NB-10, arXiv:2206.03688; Golub and Welsch, Mathematics of Computation 23 (1969).

    Args:
        d: dimension of the space, at least 2.
        nodes: how many.

    Raises:
        ValueError: `d` is below 2 or `nodes` below 1.

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
    return ZonalRule((values - values[::-1]) / 2, (weights + weights[::-1]) / 2)


@entry
def funk_hecke(
    function: Callable[[Array], Array], d: int, degree: int, *, scale: int | float = 1.0
) -> Float64[np.ndarray, " q"]:
    r"""Coefficients of a function of one coordinate, the Funk-Hecke eigenvalues, up to `degree`.

    $$c_k = \mathbb E[g(r t)\, P_k(t)], \qquad
    \mathbb E_w[P_k(\beta^\top w)\, g(r\, w^\top x)] = c_k P_k(\beta^\top x)$$

    for w uniform on the unit sphere and unit vectors $\beta$, x. Then
    $g(r t) = \sum_k N(d, k)\, c_k P_k(t)$.

    Source: BL-35 ($\mu_k$, r = 1), arXiv:1910.01619; NB-10 ($c_l$, $r = \sqrt d$),
    arXiv:2206.03688.

    Args:
        function: g, applied entry by entry to a float64 JAX array; it may have a kink at 0.
        d: dimension of the space, at least 2.
        degree: the highest.
        scale: r.

    Raises:
        ValueError: `d` is below 2, `degree` negative, `scale` not positive, or `function` not
            finite on [-r, r].

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
