# SPDX-License-Identifier: Apache-2.0
"""Corollary 6.6: good weights stay good where the signs are those of moved and noisy weights."""

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry
from unlazy.nets import ThreeLayerParams
from unlazy.nets.checking import check_kind, check_owner, check_rows
from unlazy.papers.allenzhu_li_liang2019.concept_classes import ThreeLayerConcept
from unlazy.papers.allenzhu_li_liang2019.three_layer_existence import (
    ThreeLayerWeights,
    low_rank_outputs,
)
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import Movement, ThreeLayerObjective
from unlazy.papers.shared.sign_patterns import flipped_fractions, sign_pattern


class CoupledExistence(eqx.Module):
    """Root mean squares over points, outputs and draws; shares of neurons by layer."""

    error: float  # of the pseudo network with the new signs, from the concept
    start_error: float  # the same with the signs of the start
    change: float  # of the pseudo network, from the signs of the start to the new ones
    flipped: tuple[float, float]  # neurons of both layers whose sign has changed


@entry
def existence_after_coupling(
    objective: ThreeLayerObjective,
    params: ThreeLayerParams,
    weights: ThreeLayerWeights,
    concept: ThreeLayerConcept,
    x: Float[Array | np.ndarray, "n d"],
    *,
    delta: Movement | None = None,
    draws: int = 8,
    key: PRNGKeyArray,
) -> CoupledExistence:
    r"""How well good weights approximate their concept with the signs of moved and noisy weights.

    $$g^{(b,b)}(x; W^*, V^*) \approx f^*(x), \qquad \text{signs at }
    (W_0 + W^\rho + \Sigma W', V_0 + V^\rho + V' \Sigma)$$

    The noise $\rho$ and the signs $\Sigma$ are those of `objective`, drawn `draws` times. The lemma
    of existence is about the signs of the start, the corollary about these, and few of them must
    change. Noise in V of standard deviation $c/\sqrt{m_2}$ flips a share of
    $\arctan(c/\sqrt 2)/\pi$ of the second layer at any width. So c must be small, which
    $m_2^{-0.01}$ is at no real width.

    Source: arXiv:1811.04918 Corollary 6.6.

    Args:
        objective: its noise, signs and network.
        params: the initialisation.
        weights: of `three_layer_weights` at the same initialisation.
        concept: the target.
        x: points as in `three_layer_weights`.
        delta: $W'$ and $V'$; None for no movement.
        draws: of noise and signs.
        key: for them.

    Example:
        >>> from unlazy.nets import ThreeLayer
        >>> from unlazy.papers.allenzhu_li_liang2019 import three_layer_weights
        >>> e, one = np.eye(3), np.ones((1, 1))
        >>> concept = ThreeLayerConcept(
        ...     np.ones(1), ["identity"], one, one, ["identity"], ["sin"], e[:1], e[1:2])
        >>> net, x = ThreeLayer(3, (50, 200)), np.array([[0.75**0.5, 0.0, 0.5]])
        >>> params = net.init(key=jr.key(0))
        >>> found = three_layer_weights(params, concept, key=jr.key(1))
        >>> still = ThreeLayerObjective(net, 1, sigma_w=0, sigma_v=0)
        >>> existence_after_coupling(still, params, found, concept, x, key=jr.key(2)).change
        0.0
    """
    check_key(key)
    check_kind(objective, ThreeLayerObjective, name="objective")
    check_kind(weights, ThreeLayerWeights, name="weights")
    check_kind(concept, ThreeLayerConcept, name="concept")
    net = objective.net
    check_owner(params, net.shapes)
    check_rows(x, net.inputs)
    check_count(draws, "draws")
    if delta is None:
        delta = Movement(jnp.zeros_like(params.W), jnp.zeros_like(params.V))
    check_owner(delta, {part: net.shapes[part] for part in ("W", "V")}, "delta")
    rows, points = jnp.asarray(x, params.W.dtype), np.asarray(x, np.float64)
    a = np.atleast_2d(np.asarray(params.a, np.float64))
    good = weights.left, weights.right, np.asarray(weights.dW, np.float64)

    def outputs(pattern) -> np.ndarray:
        masks = [np.asarray(mask) for mask in pattern.layers]
        return net.multiplier * low_rank_outputs(masks, a, *good, points)

    before = sign_pattern(net, params, rows)
    start = outputs(before)
    target = np.asarray(concept(points), np.float64).reshape(start.shape)
    found, flipped = [], []
    for key_draw in jr.split(key, draws):
        moved = objective.weights(params, delta, objective.draw(params, key=key_draw))
        after = sign_pattern(net, moved, rows)
        found.append(outputs(after))
        flipped.append([float(np.mean(share)) for share in flipped_fractions(before, after)])
    ends = np.stack(found)
    first, second = np.mean(flipped, axis=0)
    return CoupledExistence(
        error=_rms(ends - target),
        start_error=_rms(start - target),
        change=_rms(ends - start),
        flipped=(float(first), float(second)),
    )


def _rms(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))
