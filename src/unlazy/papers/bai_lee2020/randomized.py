# SPDX-License-Identifier: Apache-2.0
"""The landscape of the sign-randomised risk at a point, by antithetic Monte Carlo or exactly."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import (
    as_number,
    check_count,
    check_finite,
    check_inputs,
    check_key,
    check_labels,
)
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.escape.penalty import regularizer
from unlazy.escape.signs import all_signs
from unlazy.losses import PointwiseLoss, check_targets, pointwise
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients, quadratic_term
from unlazy.papers.bai_lee2020.landscape import REGULARIZER_CONSTANT, Movement

_LARGEST_EXACT = 20  # neurons whose signs are enumerated
_BYTES = 2**27  # of pre-activations at once


class RandomizedLandscape(eqx.Module):
    r"""Risk, directional gradient and mean curvature of $L_\lambda(W)$, with errors.

    $L_\lambda(W) = E_s \tilde L(s W) + \lambda \|W\|_{2,4}^8$, and `excess` is the least
    $\varepsilon$ with which the inequality of `randomized_landscape` holds. Errors are standard
    errors of the Monte Carlo, zero when all signs were enumerated; that of the excess accounts for
    the three coming from the same draws.
    """

    risk: float
    gradient_along_W: float
    curvature: float
    excess: float
    risk_error: float
    gradient_error: float
    curvature_error: float
    excess_error: float
    pairs: int  # of antithetic draws


@entry
def randomized_landscape(
    net: TwoLayer,
    params: TwoLayerParams,
    W: Movement,
    W_star: Movement,
    x: Float[Array | np.ndarray, "n d"],
    y: Float[Array | np.ndarray, " n"],
    *,
    loss: str | PointwiseLoss = "logistic",
    strength: int | float = 0.0,
    pairs: int | None = 200,
    key: PRNGKeyArray | None = None,
) -> RandomizedLandscape:
    r"""The randomised risk around a movement, and how far its landscape inequality is from holding.

    $$E_{s'} \nabla^2 L_\lambda(W)[s'W^*, s'W^*] \le \langle\nabla L_\lambda(W), W\rangle
    - 2 (L_\lambda(W) - L^Q(W^*)) - \lambda \|W\|_{2,4}^8 + C \lambda \|W^*\|_{2,4}^8
    + \varepsilon, \qquad C = 378 (14/5)^3$$

    with $\lambda$ the `strength` of the penalty: Theorem 2 without it, Corollary 3 with it. The
    directions are $s' W^*$. The mean over $s'$ is exact,

    $$E_{s'} \nabla^2 L(W)[s'W^*, s'W^*] = E_s \frac1n \sum_i \Big[ \frac{\ell''}{m} \sum_r
    \sigma'(u_r^\top x_i)^2 (w^*_r{}^\top x_i)^2 + \frac{\ell'}{\sqrt m} \sum_r a_r
    \sigma''(u_r^\top x_i) (w^*_r{}^\top x_i)^2 \Big], \qquad u_r = w_{0,r} + s_r w_r,$$

    and the mean over $s$ is taken by antithetic `pairs` $(s, -s)$, drawn by the key, in float64;
    pairs=None enumerates all signs of up to 20 neurons.

    Source: BL-32 and BL-13, arXiv:1910.01619 Theorem 2 and Corollary 3.
    """
    strength = as_number(strength, "strength", least=0)
    check_inputs(x)
    check_labels(y, len(x), single=True)
    check_targets(loss, y)
    m = net.width
    if pairs is None and m > _LARGEST_EXACT:
        raise ValueError(
            f"`pairs` must be a number of draws for more than {_LARGEST_EXACT} neurons, "
            f"got pairs=None with {m} neurons."
        )
    if pairs is not None:
        check_count(pairs, "pairs", least=2)
        check_key(key)
    check_movement(params, W, "W")
    check_movement(params, W_star, "W_star")
    with float64():
        problem = (params, *map(jnp.asarray, (W, W_star, x, y)))
        if pairs is None or key is None:
            # Half of them: the pair of each is its negative.
            signs = jnp.asarray(all_signs(m)[: 2 ** (m - 1)])
        else:
            signs = jr.rademacher(key, (pairs, m), jnp.float64)
        batch = max(1, min(len(signs), _BYTES // (16 * m * len(x))))
        values, target = _evaluate(net, problem, pointwise(loss), signs, batch)
        # Without a penalty not 0 times it, which would be nan where it overflows.
        penalty = strength * _penalty_terms(W, W_star) if strength else np.zeros(4)
    L, slope, curvature = np.asarray(values).T + penalty[:3, None]
    excess = curvature - slope + 2 * (L - float(target)) + penalty[0] - penalty[3]
    every = np.stack([L, slope, curvature, excess])
    means = every.mean(axis=1)
    errors = 0 * means if pairs is None else every.std(axis=1, ddof=1) / math.sqrt(len(L))
    return RandomizedLandscape(*map(float, (*means, *errors)), pairs=len(L))


def check_movement(params: TwoLayerParams, movement: Movement, name: str) -> None:
    """Raise unless the movement is finite and moves the hidden weights of `params`."""
    if np.shape(movement) != params.W.shape:
        raise ValueError(
            f"`{name}` must have shape {params.W.shape}, got {name}.shape={np.shape(movement)}."
        )
    check_finite(movement, name)


def _penalty_terms(W: Movement, W_star: Movement) -> Float64[np.ndarray, " 4"]:
    """R(W), its slope along W, its mean curvature along W*, and C R(W*); call it in float64."""
    W, W_star = (jnp.asarray(V, jnp.float64) for V in (W, W_star))
    R, R_star = float(regularizer(W)), float(regularizer(W_star))
    curvature = float(regularizer.curvature(W, W_star))
    return np.array([R, 8 * R, curvature, REGULARIZER_CONSTANT * R_star])


@eqx.filter_jit
def _evaluate(
    net: TwoLayer, problem: Any, loss: PointwiseLoss, signs: Float[Array, "t m"], batch: int
) -> tuple[Float[Array, "t 3"], Float[Array, ""]]:
    """Risk, directional gradient and curvature of each pair; the clean risk of the comparator."""
    # Cast in here: outside, every cast would be a program of its own.
    params, W, W_star, x, y = jax.tree.map(lambda leaf: leaf.astype(jnp.float64), problem)
    sigma, a = net.activation, params.a / math.sqrt(net.width)
    Z0, Z, squares = x @ params.W.T, x @ W.T, (x @ W_star.T) ** 2

    def one(s: Float[Array, " m"]) -> Float[Array, " 3"]:
        U = Z0 + s[None, :] * Z
        f = sigma(U) @ a
        l1, l2 = (loss.derivative(k)(f, y) for k in (1, 2))
        S1 = sigma.derivative(1)(U)
        along = l1 * ((S1 * Z) @ (a * s))
        curvature = l2 * ((S1**2 * squares) @ a**2)
        curvature += l1 * ((sigma.derivative(2)(U) * squares) @ a)
        return jnp.mean(jnp.stack([loss(f, y), along, curvature]), axis=1)

    values = jax.lax.map(lambda s: (one(s) + one(-s)) / 2, signs, batch_size=batch)
    clean = quadratic_term(coefficients(sigma, params, x, 2), x @ W_star.T)
    return values, jnp.mean(loss(clean, y))
