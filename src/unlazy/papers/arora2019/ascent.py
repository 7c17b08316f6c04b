# SPDX-License-Identifier: Apache-2.0
"""How many random signs networks near their start really fit: a lower estimate by ascent."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.nets import TwoLayerParams
from unlazy.papers.shared.patterns import Inputs, check_network
from unlazy.papers.shared.rademacher import RademacherEstimate, estimate

_STEP = 0.3  # of the distance, along the normalised gradient


class _Climb(NamedTuple):
    dW: Float64[Array, "m d"]
    best: Float64[Array, ""]


@entry
def rademacher_ascent(
    params0: TwoLayerParams,
    x: Inputs,
    *,
    distance: int | float,
    neuron_distance: int | float,
    draws: int = 12,
    steps: int = 80,
    key: PRNGKeyArray,
) -> RademacherEstimate:
    r"""Lower estimate of the Rademacher complexity of ReLU networks near their start.

    $$\frac1n \mathbb E_\varepsilon \max_{W} \sum_i \varepsilon_i \big(f_W(x_i) - f_{W(0)}(x_i)\big)
    \quad\text{over } \|W - W(0)\|_F \le B,\ \|w_r - w_r(0)\| \le R$$

    with the maximum replaced by the best point that projected gradient ascent meets: a step of
    $0.3 B$ along the normalised gradient, then each neuron is clipped to $R$ and the whole to $B$.
    Subtracting the value at the start changes nothing in expectation and lowers the variance. Every
    point met is feasible, so the estimate errs to the low side only, but for the sampling of signs.

    Source: AR-36, for the class of arXiv:1901.08584 Lemma 5.4.

    Args:
        params0: the start.
        x: inputs.
        distance: $B$.
        neuron_distance: $R$.
        draws: sign vectors to average over.
        steps: of ascent for each.
        key: for the signs.

    Raises:
        ValueError: `x` is not a finite (n, d) array that fits the weights, or a number is not
            positive.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.array([1.0, -1.0]))
        >>> near = dict(distance=0.1, neuron_distance=0.1, draws=4, key=jr.key(0))
        >>> # Linear within reach: (B/n) |(1, 1) / sqrt(2)| for all signs.
        >>> round(rademacher_ascent(params, jnp.eye(2), **near).value, 6)
        0.05
    """
    check_network(params0.W, x)
    check_positive(distance, "distance")
    check_positive(neuron_distance, "neuron_distance")
    check_count(draws, "draws", least=2)
    check_count(steps, "steps")
    check_key(key)
    signs = jr.rademacher(key, (draws, x.shape[0]), dtype=jnp.int8)
    with float64():
        start = TwoLayerParams(
            W=jnp.asarray(params0.W, jnp.float64), a=jnp.asarray(params0.a, jnp.float64)
        )
        values = _climb_all(
            start,
            jnp.asarray(x, jnp.float64),
            signs,
            jnp.asarray(distance, jnp.float64),
            jnp.asarray(neuron_distance, jnp.float64),
            jnp.asarray(steps),
        )
        return estimate(jax.device_get(values))


@jax.jit
def _climb_all(start: TwoLayerParams, x, signs, B, R, steps) -> Float64[Array, " draws"]:
    n, m = x.shape[0], start.W.shape[0]

    def climb(eps):
        def gain(dW: Float[Array, "m d"]) -> Float[Array, ""]:
            P0 = jnp.matmul(x, start.W.T, precision=jax.lax.Precision.HIGHEST)
            P = P0 + jnp.matmul(x, dW.T, precision=jax.lax.Precision.HIGHEST)
            change = jax.nn.relu(P) - jax.nn.relu(P0)
            return jnp.sum(eps.astype(x.dtype) * (change @ start.a)) / (n * math.sqrt(m))

        def step(_, state: _Climb) -> _Climb:
            slope = jax.grad(gain)(state.dW)
            dW = _feasible(state.dW + _STEP * B * _unit(slope), B, R)
            return _Climb(dW, jnp.maximum(state.best, gain(dW)))

        start_here = _Climb(jnp.zeros_like(start.W), jnp.zeros((), x.dtype))
        return jax.lax.fori_loop(0, steps, step, start_here).best

    # One sign vector at a time: together they would hold `draws` copies of the weights.
    return jax.lax.map(climb, signs)


def _unit(W: Float64[Array, "m d"]) -> Float64[Array, "m d"]:
    norm = jnp.linalg.norm(W)
    return W / jnp.where(norm > 0, norm, 1)


def _feasible(dW: Float64[Array, "m d"], B, R) -> Float64[Array, "m d"]:
    # Clipping the rows first, then all of them by one factor, leaves both constraints satisfied; a
    # second round would change nothing.
    rows = jnp.linalg.norm(dW, axis=1, keepdims=True)
    dW = dW * jnp.minimum(1, R / jnp.where(rows > 0, rows, R))
    norm = jnp.linalg.norm(dW)
    return dW * jnp.minimum(1, B / jnp.where(norm > 0, norm, B))
