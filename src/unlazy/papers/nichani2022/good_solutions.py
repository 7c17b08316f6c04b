# SPDX-License-Identifier: Apache-2.0
"""Theorem 2: one movement that fits a dense low-degree part and a sparse part at once."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.data import LowPlusSparse, Target
from unlazy.escape import Directions
from unlazy.linalg.full_precision import full_product
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients
from unlazy.papers.nichani2022.assumptions import checked_parts
from unlazy.papers.nichani2022.low_parts import LinearFit, low_part, regression_points
from unlazy.papers.nichani2022.sparse_parts import sparse_part
from unlazy.papers.nichani2022.sphere_start import check_sphere_start
from unlazy.papers.shared.activation_patterns import Inputs
from unlazy.papers.shared.expansions import movement_terms
from unlazy.papers.shared.quadratic_fit import QuadraticFit

_ENTRIES = 2**22  # of the features held at a time: 32 MB in float64


class GoodSolution(eqx.Module):
    r"""The movement $W^* = W_L + \mathrm{Sgn}\, W_Q$ and what it achieves.

    `dW` is in float64; with x64 off JAX would round it in the next operation: work under
    `with jax.enable_x64(True)`, or on `np.asarray(solution.dW)`. Errors are at the points given,
    the three squares are means over the points that the leading directions were found from.
    """

    dW: Float64[Array, "m d"]
    low: LinearFit  # W_L
    sparse: QuadraticFit  # W_Q, without signs
    signs: Float64[np.ndarray, " m"]
    linear_square: float  # f_L(Sgn W_Q)^2, with the signs that were kept
    linear_square_mean: float  # the same averaged over all signs, exactly
    linear_square_unsigned: float  # f_L(W_Q)^2, which grows like sqrt(m)
    penalties: tuple[float, float, float, float]  # R1 to R4 at W*
    outputs: Float64[np.ndarray, " n"]  # f_L + f_Q at the points
    max_error: float  # of these
    mean_square: float
    remainder: float  # root mean square of what f has beyond f_L + f_Q there


@entry
def good_solution(
    geometry: Directions,
    target: Target,
    x: Inputs | None = None,
    *,
    draws: int = 4,
    key: PRNGKeyArray,
) -> GoodSolution:
    r"""The movement of Theorem 2, for a dense part of low degree plus a sparse part.

    $$W^* = W_L + \mathrm{Sgn}\, W_Q, \qquad f_Q(\mathrm{Sgn}\, W_Q) = f_Q(W_Q), \qquad
    \mathbb E_{\mathrm{Sgn}}\, \mathbb E f_L(\mathrm{Sgn}\, W_Q)^2
    = \frac1m \sum_r \mathbb E\big[\sigma'(w_{0,r}^\top x)^2 (w_r^\top x)^2\big]
    = O(m^{-1/2} d^{(k-1)/2})$$

    with $W_L$ from `low_part`, $W_Q$ from `sparse_part`, and signs on its rows. Of several draws of
    the signs the one with the smallest linear term is kept; without signs that term grows like
    $\sqrt m$.

    Source: NB-42, arXiv:2206.03688 Theorem 2, reconstructed.

    Args:
        geometry: of `escape.directions`, for a network with init="sphere" of radius $\kappa$, its
            init_scale, and inputs of norm $\sqrt d/\kappa$.
        target: of `data.target`: "linear-plus-square", "quadratic-plus-cubic" or
            "low-degree-plus-sparse".
        x: points of that norm where errors are measured; None for the training inputs of the
            geometry.
        draws: of signs.
        key: for the signs.

    Example:
        >>> import unlazy as ul
        >>> sigma = ul.activation("sigmoid", shift=1.5)
        >>> net = ul.nets.TwoLayer(6, 1000, sigma, init="sphere")
        >>> x = ul.data.sphere(220, 6, radius=6**0.5, key=jr.key(1))
        >>> geometry = ul.escape.directions(net, net.init(key=jr.key(0)), x[:200], degree=1)
        >>> target = ul.data.target("linear-plus-square", beta=np.ones(6))
        >>> best = good_solution(geometry, target, x[200:], key=jr.key(2))
        >>> print(best.mean_square < 0.2, 100 * best.linear_square < best.linear_square_unsigned)
        True True
    """
    check_count(draws, "draws")
    check_key(key)
    target = checked_parts(target)
    net, params0 = geometry.net, geometry.params
    points = regression_points(geometry)
    check_sphere_start(net, params0, points)
    rows = np.asarray(geometry.term.x if x is None else x, np.float64)
    low, parts = low_part(geometry, target.low, rows), target.sparse
    sparse = sparse_part(net, params0, parts.alphas, np.asarray(parts.betas), parts.powers, rows)
    signs = np.asarray(jr.rademacher(key, (draws, net.width), dtype=jnp.int8), np.float64)
    every = np.concatenate([signs, np.ones((1, net.width))])
    *squares, unsigned, mean = _linear_squares(net, params0, sparse.dW, points, every)
    best = int(np.argmin(squares))
    dW = np.asarray(low.dW) + signs[best][:, None] * np.asarray(sparse.dW)
    return GoodSolution(
        **_achieved(geometry, dW, target, rows),
        low=low,
        sparse=sparse,
        signs=signs[best],
        linear_square=float(squares[best]),
        linear_square_mean=float(mean),
        linear_square_unsigned=float(unsigned),
    )


def _achieved(geometry: Directions, dW: np.ndarray, target: LowPlusSparse, x: np.ndarray) -> dict:
    terms = movement_terms(geometry.net, geometry.params, dW, x)
    outputs = terms.linear + terms.quadratic
    error = outputs - np.asarray(target(x))
    with float64():
        W = jnp.asarray(dW)
        penalties = tuple(float(value) for value in _penalties(geometry, W))
    return {
        "dW": W,
        "penalties": penalties,
        "outputs": outputs,
        "max_error": float(np.abs(error).max()),
        "mean_square": float(np.mean(error**2)),
        "remainder": math.sqrt(float(np.mean(terms.remainder**2))),
    }


@eqx.filter_jit
def _penalties(geometry: Directions, W: Float64[Array, "m d"]):
    return geometry.r1(W), geometry.r2(W), geometry.r3(W), geometry.r4(W)


def _linear_squares(
    net, params0, dW, x: np.ndarray, signs: Float64[np.ndarray, "t m"]
) -> Float64[np.ndarray, " q"]:
    """Mean squares of the linear term over the points, per sign vector, then over all signs."""
    step = max(1, _ENTRIES // net.width)
    blocks = [x[k : k + step] for k in range(0, len(x), step)]
    with float64():
        arrays = jax.tree.map(lambda v: jnp.asarray(v, jnp.float64), (params0, dW, signs))
        sums = [np.asarray(_square_sums(net, *arrays, jnp.asarray(rows))) for rows in blocks]
    return np.sum(sums, axis=0) / len(x)


@jax.jit
def _square_sums(net: TwoLayer, params0: TwoLayerParams, dW, signs, x) -> Float64[Array, " q"]:
    features = coefficients(net.activation, params0, x, 1) * full_product(x, dW.T)
    drawn = jnp.sum(full_product(features, signs.T) ** 2, axis=0)
    # The mean over all signs has no cross terms.
    return jnp.append(drawn, jnp.sum(features**2)) / net.width
