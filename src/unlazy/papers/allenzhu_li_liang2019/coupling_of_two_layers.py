# SPDX-License-Identifier: Apache-2.0
"""Lemma B.3, coupling: how far a two-layer learner and its gradient are from the pseudo network."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.entries import entry
from unlazy.nets import BiasedTwoLayer, BiasedTwoLayerParams
from unlazy.nets.checking import check_kind, check_owner
from unlazy.papers.allenzhu_li_liang2019.pseudo_networks import pseudo_output
from unlazy.papers.shared.learner_data import Data, check_learner_data, mean_loss
from unlazy.papers.shared.learner_losses import (
    LearnerLoss,
    check_learner_targets,
    learner_loss,
    loss_bounds,
)
from unlazy.papers.shared.sign_patterns import sign_pattern


class CouplingRates(NamedTuple):
    """What the lemma says of the three gaps, with the constants that it hides taken as 1."""

    flipped: float
    output_gap: float
    gradient_gap: float


class TwoLayerCoupling(eqx.Module):
    r"""Gaps between a two-layer learner F and its pseudo network G, as means over the samples.

    The gradients are those of the loss of one sample in W, and their norm is
    $\|\cdot\|_{2,1}$, the sum of the lengths of the rows. `gradient_bound` holds for certain:
    the gradients of neurons that flip, plus the difference of the losses' slopes.
    """

    moved: float  # tau = |W - W0|_{2,inf}
    flipped: float  # share of neurons whose sign has changed
    output_gap: float  # |F - G|
    gradient_gap: float  # |grad L(F) - grad L(G)|_{2,1}
    gradient_bound: float  # never below the gap; inf for a loss without bounds
    gradient_norm: float  # |grad L(F)|_{2,1}
    rates: CouplingRates


@entry
def two_layer_coupling(
    net: BiasedTwoLayer,
    start: BiasedTwoLayerParams,
    params: BiasedTwoLayerParams,
    data: Data,
    *,
    loss: str | LearnerLoss = "pseudo-huber",
) -> TwoLayerCoupling:
    r"""How far a two-layer learner and its gradient have left those of its pseudo network.

    The pseudo network G has the weights of `params` and the signs of `start`. For rows that move
    by at most $\tau$ the lemma has, up to constants and logarithms,

    $$\frac{\#\text{flips}}{m} \lesssim \tau \sqrt{k m}, \qquad
    |F - G| \lesssim \varepsilon_a k\, \tau^2 m^{3/2}, \qquad
    \|\nabla L(F) - \nabla L(G)\|_{2,1} \lesssim
    \varepsilon_a k\, \tau m^{3/2} + \varepsilon_a^2 k^2 \tau^2 m^{5/2}$$

    with $\varepsilon_a$ the root mean square of the output weights; the constants that the paper
    hides are taken as 1. For a loss that is L-Lipschitz and C-smooth in its outputs
    `gradient_bound` is

    $$\|x\| \Big( L \sum_{i \text{ flipped}} \|a_i\|
    + C\, \|F - G\| \sum_{i \text{ active at the start}} \|a_i\| \Big)$$

    Source: LG-38, arXiv:1811.04918 Lemma B.3.

    Args:
        net: the learner, with ReLU.
        start: its initialisation.
        params: its weights after training, with the biases and output weights of `start`.
        data: `(x, y)`, as in `two_layer_sgd`.
        loss: as in `two_layer_sgd`.

    Example:
        >>> import jax.numpy as jnp
        >>> net = BiasedTwoLayer(inputs=2, width=8)
        >>> params = net.init(key=jax.random.key(0))
        >>> two_layer_coupling(net, params, params, (jnp.eye(2), jnp.ones(2))).gradient_gap
        0.0
    """
    check_kind(net, BiasedTwoLayer)
    for one in (start, params):
        check_owner(one, net.shapes)
    x, y = check_learner_data(data, net.output_shape[:-1], params.W.dtype)
    check_learner_targets(loss, y)
    before, after = sign_pattern(net, start, x), sign_pattern(net, params, x)
    a = np.atleast_2d(np.asarray(params.a, np.float64))
    k, m = a.shape
    outputs = net(params, x), pseudo_output(net, params, x, before)
    F, G = (np.asarray(out, np.float64).reshape(len(x), k) for out in outputs)
    slopes = [np.asarray(_slopes(loss, out, y), np.float64).reshape(len(x), k) for out in outputs]
    D0, D = (np.asarray(pattern.layers[0]) for pattern in (before, after))
    # Every row of the gradient of one sample is a multiple of x.
    rows_F, rows_G = (s @ a * mask for s, mask in zip(slopes, (D, D0), strict=True))
    sizes, lengths = np.linalg.norm(np.asarray(x, np.float64), axis=1), np.linalg.norm(a, axis=0)
    gap = np.linalg.norm(F - G, axis=1)
    lipschitz, smooth = loss_bounds(learner_loss(loss), k)
    bound = np.full(len(gap), np.inf)
    if math.isfinite(lipschitz):  # else infinity would meet zeros
        bound = lipschitz * ((D != D0) @ lengths) + smooth * gap * (D0 @ lengths)
    moved = np.asarray(params.W, np.float64) - np.asarray(start.W, np.float64)
    tau = float(np.max(np.linalg.norm(moved, axis=1)))
    return TwoLayerCoupling(
        moved=tau,
        flipped=float(np.mean(D != D0)),
        output_gap=float(np.mean(gap)),
        gradient_gap=float(np.mean(sizes * np.sum(np.abs(rows_F - rows_G), axis=1))),
        gradient_bound=float(np.mean(sizes * bound)),
        gradient_norm=float(np.mean(sizes * np.sum(np.abs(rows_F), axis=1))),
        rates=_rates(tau, float(np.sqrt(np.mean(a**2))), k, m),
    )


def _rates(tau: float, eps_a: float, k: int, m: int) -> CouplingRates:
    outputs = eps_a * k * tau**2 * m**1.5
    gradients = eps_a * k * tau * m**1.5
    return CouplingRates(tau * math.sqrt(k * m), outputs, gradients + eps_a * k * m * outputs)


def _slopes(
    loss: str | LearnerLoss, outputs: Float[Array, "n *c"], y: Float[Array, "n *c"]
) -> Float64[np.ndarray, "n *c"]:
    """The gradient of the loss of each sample in its outputs."""
    slope = jax.grad(lambda out: mean_loss(learner_loss(loss), out, y))(outputs)
    return len(y) * np.asarray(slope, np.float64)
