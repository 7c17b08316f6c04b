# SPDX-License-Identifier: Apache-2.0
"""Lemma 2: movements whose linear Taylor term is a given polynomial of low degree."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import calling, check_finite, check_inputs, check_labels
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape import Directions
from unlazy.escape.good_directions.linear_term import LinearTerm
from unlazy.escape.good_directions.projectors import SampleProjector
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.checking import check_rows
from unlazy.papers.nichani2022.sphere_start import check_sphere_start, zonal_coefficients
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.expansions import movement_terms


class LinearFit(eqx.Module):
    r"""A movement whose linear Taylor term is a given function, up to the width.

    `dW` is in float64; with x64 off JAX would round it in the next operation: work under
    `with jax.enable_x64(True)`, or on `np.asarray(fit.dW)`. Without points the errors are nan.
    """

    dW: Float64[Array, "m d"]
    norm: float  # Frobenius
    norm_limit: float  # what it tends to with the width; nan where that is not known
    max_error: float  # of f_L at the points given
    mean_square: float  # of the same
    outputs: Float64[np.ndarray, " n"]  # f_L there


@entry
def low_part(
    geometry: Directions, target: Callable[[Any], Any], x: Inputs | None = None
) -> LinearFit:
    r"""The movement $W_L$ of Lemma 2: its linear term is a polynomial of degree at most k.

    Regression in the leading directions, on the N points that they were found from:

    $$W_L = \frac{1}{\sqrt m} (S \odot c)^\top X, \qquad
    c = U_1 \operatorname{diag}(s_1^{-2})\, U_1^\top f_k(X), \qquad
    S_{ir} = a_r \sigma'(w_{0,r}^\top x_i)$$

    with $U_1$, $s_1^2$ the leading eigenvectors and eigenvalues of the tangent kernel there. For
    the exact covariance of the sphere, which has no points, least squares at the training inputs.
    The movement lies in the span of the leading directions by construction.

    Source: NB-41 and NB-7, arXiv:2206.03688 Lemma 2, reconstructed.

    Args:
        geometry: of `escape.directions`; with covariance="unlabelled" the regression is on the
            unlabelled points, of which twenty times the rank serve well.
        target: $f_k$, such as the `low` of `data.target("linear-plus-square", ...)`.
        x: points where the error is measured; None for the training inputs of the geometry.

    Example:
        >>> import unlazy as ul
        >>> sigma = ul.activation("sigmoid", shift=1.5)
        >>> net = ul.nets.TwoLayer(4, 400, sigma, init="sphere")
        >>> params = net.init(key=jax.random.key(0))
        >>> x = ul.data.sphere(120, 4, radius=2.0, key=jax.random.key(1))
        >>> geometry = ul.escape.directions(net, params, x[:100], degree=1)
        >>> low_part(geometry, lambda x: x[:, 0] - 1, x[100:]).mean_square < 0.05
        True
    """
    net, params0 = geometry.net, geometry.params
    if x is not None:
        check_inputs(x, allow_zero_rows=True)
        check_rows(np.asarray(x), net.inputs)
    points = regression_points(geometry)
    with calling("target", "rows of inputs"):
        values = np.asarray(target(points), np.float64)
    check_labels(values, len(points), "target", single=True)
    projector = geometry.projector
    if isinstance(projector, SampleProjector):
        q = projector.U.T @ values
    else:
        q = np.linalg.lstsq(geometry.carry, values, rcond=None)[0]
    with float64():
        dW = _lifted(geometry, jnp.asarray(points), jnp.asarray(q))
    rows = np.asarray(geometry.term.x if x is None else x, np.float64)
    return _report(net, params0, dW, target, rows, limit=math.nan)


def regression_points(geometry: Directions) -> Float64[np.ndarray, "n d"]:
    """The points that the leading directions come from, or, without any, the training inputs."""
    projector = geometry.projector
    term = projector.term if isinstance(projector, SampleProjector) else geometry.term
    return np.asarray(term.x, np.float64)


@entry
def affine_part(
    net: TwoLayer,
    params0: TwoLayerParams,
    linear: Float[Array | np.ndarray, " d"],
    constant: int | float = 0.0,
    x: Inputs | None = None,
) -> LinearFit:
    r"""A movement in closed form whose linear term is $\gamma^\top x + \kappa$.

    $$w_r = \frac{a_r}{\sqrt m} \Big( \frac{\gamma}{\mathbb E\, \sigma'(z)}
    + \frac{\kappa\, w_{0,r}}{\mathbb E[z\, \sigma'(z)]} \Big), \qquad z = \sqrt d\, t, \qquad
    \|W\|_F^2 \to \frac{\|\gamma\|^2}{(\mathbb E \sigma')^2}
    + \frac{\kappa^2 \|w_0\|^2}{(\mathbb E z \sigma')^2}$$

    with $\gamma$ = `linear` and $\kappa$ = `constant`, for a start with init="sphere" of radius
    $\kappa_0$, its init_scale, and an activation with a second derivative. It is not exactly inside
    the span of the top directions; the mean square error, measured at points `x` of norm
    $\sqrt d / \kappa_0$, falls like 1/m, most of it from the constant.

    Source: NB-41, arXiv:2206.03688 Lemma 2 for k = 1, reconstructed.

    Raises:
        ValueError: a coefficient of $\sigma'$ that is needed vanishes: the message names a shift
            that helps.

    Example:
        >>> import unlazy as ul
        >>> sigma = ul.activation("sigmoid", shift=1.5)
        >>> net = ul.nets.TwoLayer(10, 4000, sigma, init="sphere")
        >>> fit = affine_part(net, net.init(key=jax.random.key(0)), np.eye(10)[0], -1.0)
        >>> print(round(fit.norm**2 / 265, 1), round(fit.norm_limit**2 / 265, 1))
        1.0 1.0
    """
    check_sphere_start(net, params0, x)
    gamma, kappa = np.asarray(linear, np.float64), float(constant)
    if gamma.shape != (net.inputs,):
        raise ValueError(
            f"`linear` must have shape ({net.inputs},), got linear.shape={gamma.shape}."
        )
    check_finite(gamma, "linear")
    check_finite(kappa, "constant")
    degrees = [*([0] if gamma.any() else []), *([1] if kappa else [])]
    c = np.ones(2)
    if degrees:
        c[degrees] = zonal_coefficients(net.activation, 1, net.inputs, degrees, learned=1)
    a, W0 = np.asarray(params0.a, np.float64), np.asarray(params0.W, np.float64)
    sizes = gamma / c[0], kappa / (math.sqrt(net.inputs) * c[1])  # E z s'(z) = sqrt(d) c_1
    dW = a[:, None] / math.sqrt(net.width) * (sizes[0] + sizes[1] * W0)
    limit = math.hypot(float(np.linalg.norm(sizes[0])), sizes[1] * net.init_scale)
    return _report(net, params0, dW, lambda rows: rows @ gamma + kappa, x, limit=limit)


def _report(net, params0, dW, target, x, *, limit: float) -> LinearFit:
    with float64():
        movement = jnp.asarray(dW, jnp.float64)
    sizes = movement, float(np.linalg.norm(np.asarray(dW))), limit
    if x is None:
        return LinearFit(*sizes, math.nan, math.nan, np.zeros(0))
    rows = np.asarray(x, np.float64)
    outputs = movement_terms(net, params0, movement, rows).linear
    error = outputs - np.asarray(target(rows), np.float64)
    return LinearFit(*sizes, float(np.abs(error).max()), float(np.mean(error**2)), outputs)


@eqx.filter_jit
def _lifted(geometry: Directions, points, q: Float64[Array, " r"]) -> Float64[Array, "m d"]:
    """The movement with the coordinates `q`, from float64 features whatever the start's dtype."""
    projector = geometry.projector
    if isinstance(projector, SampleProjector):
        wide = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), geometry.params)
        term = LinearTerm.at(geometry.net, wide, points, projector.term.folding)
        projector = eqx.tree_at(lambda own: own.term, projector, term)
    return projector.movement(q)
