# SPDX-License-Identifier: Apache-2.0
"""Rademacher complexity of ReLU networks near one given start: two bounds and a lower estimate."""

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
from unlazy.papers.shared.activation_patterns import Inputs, check_network, pattern, preactivations
from unlazy.papers.shared.rademacher import RademacherEstimate, estimate

_STEP = 0.3  # of the distance, along the normalised gradient


class BoundParts(NamedTuple):
    """The two terms of a Rademacher bound: the linearised class, and what it leaves out."""

    linear: float
    residual: float


@entry
def rademacher_counted(
    params0: TwoLayerParams,
    x: Inputs,
    *,
    distance: int | float,
    neuron_distance: int | float,
) -> float:
    r"""The paper's bound for the networks themselves, given their start and the inputs.

    $$\mathcal R_S \le \frac Bn \|Z(0)\|_F
    + \frac{2R}{n\sqrt m} \#\{(i, r): |w_r(0)^\top x_i| \le R\}$$

    over all $W$ with $\|W - W(0)\|_F \le B$, the `distance`, and $\|w_r - w_r(0)\| \le R$, the
    `neuron_distance`, for every neuron: a neuron whose pre-activation starts within $R$ of zero may
    switch. Nothing here is random. The output weights are taken to be $\pm 1$. `rademacher_sharp`
    is never above this bound.

    Source: AR-15b, arXiv:1901.08584 proof of Lemma 5.4; for rows of any norm $R$ stands for
    $R \|x_i\|$.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> one = dict(distance=1.0, neuron_distance=0.5)
        >>> round(rademacher_counted(params, jnp.eye(2), **one), 6)  # 1/sqrt(2) + 1/sqrt(2)
        1.414214
    """
    return sum(_parts(params0, x, distance, neuron_distance, _counted))


@entry
def rademacher_sharp(
    params0: TwoLayerParams,
    x: Inputs,
    *,
    distance: int | float,
    neuron_distance: int | float,
) -> float:
    r"""A sharper form of `rademacher_counted`: about a fourth of its residual.

    $$\mathcal R_S \le \frac Bn \|Z(0)\|_F
    + \frac{1}{n\sqrt m} \sum_{ir} \max(R - |w_r(0)^\top x_i|, 0)$$

    because a ReLU differs from its linearisation at $z_0$ by at most $\max(R - |z_0|, 0)$ while
    $|z - z_0| \le R$.

    Source: AR-15c, derived from arXiv:1901.08584 Lemma 5.4; for rows of any norm $R$ stands for
    $R \|x_i\|$. Arguments and errors are those of `rademacher_counted`.

    Example:
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> one = dict(distance=1.0, neuron_distance=0.5)
        >>> round(rademacher_sharp(params, jnp.eye(2), **one), 6)  # 1/sqrt(2) + 1/(2 sqrt(2))
        1.06066
    """
    return sum(sharp_parts(params0, x, distance, neuron_distance))


def sharp_parts(params0: TwoLayerParams, x: Inputs, distance, neuron_distance) -> BoundParts:
    """The terms of `rademacher_sharp`, which the bound for a trained network reports apart."""
    return _parts(params0, x, distance, neuron_distance, _hinged)


def _counted(P: Float[Array, "n m"], reach: Float[Array, "n 1"]) -> Float[Array, "n m"]:
    return jnp.where(jnp.abs(P) <= reach, 2 * reach, 0.0)


def _hinged(P: Float[Array, "n m"], reach: Float[Array, "n 1"]) -> Float[Array, "n m"]:
    return jnp.maximum(reach - jnp.abs(P), 0.0)


def _parts(params0: TwoLayerParams, x: Inputs, distance, neuron_distance, residuals) -> BoundParts:
    check_network(params0.W, x)
    check_positive(distance, "distance")
    check_positive(neuron_distance, "neuron_distance")
    with float64():
        P, squares = preactivations(params0.W, x), jnp.asarray(x, jnp.float64) ** 2
        n, m = P.shape
        reach = float(neuron_distance) * jnp.linalg.norm(jnp.asarray(x, jnp.float64), axis=1)
        residual = float(jnp.sum(residuals(P, reach[:, None])))
        active = jnp.mean(pattern(P).astype(jnp.float64), axis=1)
        frobenius = float(jnp.sum(jnp.sum(squares, axis=1) * active))
    return BoundParts(float(distance) / n * math.sqrt(frobenius), residual / (n * math.sqrt(m)))


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

    with $B$ the `distance` and $R$ the `neuron_distance`, averaged over `draws` sign vectors. The
    maximum is replaced by the best point that `steps` of projected gradient ascent meet: a step of
    $0.3 B$ along the normalised gradient, then each neuron is clipped to $R$ and the whole to $B$.
    Subtracting the value at the start changes nothing in expectation and lowers the variance. Every
    point met is feasible, so apart from the sampling of signs the estimate is never too high.

    Source: AR-36, for the class of arXiv:1901.08584 Lemma 5.4.

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
        W, a, rows, B, R = (
            jnp.asarray(value, jnp.float64)
            for value in (params0.W, params0.a, x, distance, neuron_distance)
        )
        values = _climb_all(TwoLayerParams(W=W, a=a), rows, signs, B, R, jnp.asarray(steps))
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
