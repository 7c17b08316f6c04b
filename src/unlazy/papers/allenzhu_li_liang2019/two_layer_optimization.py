# SPDX-License-Identifier: Apache-2.0
"""Section B.4, optimisation: why Algorithm 1 converges, as an inequality on every run of it."""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.nets import BiasedTwoLayer, BiasedTwoLayerParams
from unlazy.nets.checking import check_kind, check_owner
from unlazy.papers.allenzhu_li_liang2019.pseudo_networks import pseudo_output
from unlazy.papers.allenzhu_li_liang2019.two_layer_algorithm import Algorithm1, SgdData
from unlazy.papers.shared.learner_data import Data, check_learner_data, mean_loss
from unlazy.papers.shared.learner_losses import LearnerLoss, check_learner_targets, learner_loss
from unlazy.papers.shared.sign_patterns import sign_pattern


class TwoLayerRegret(eqx.Module):
    r"""The terms of the inequality, as means over the steps of a run.

    `regret` is at most `bound`, the sum of `distance`, `steps` and `coupling`. The loss of the
    learner itself, `loss`, is that of its pseudo network up to `loss_gap`.
    """

    loss: float  # of F, the learner, on the samples of each step
    loss_gap: float  # loss of F minus loss of G
    opt: float  # loss of G at W0 + W*, on the same samples
    regret: float  # loss of G minus opt
    distance: float  # |W*|_F^2 / (2 eta T)
    steps: float  # eta/2 times the mean square of the gradients
    coupling: float  # of the difference of both gradients with W_t - W*

    @property
    def bound(self) -> float:
        """What the regret cannot exceed."""
        return self.distance + self.steps + self.coupling


class _Terms(NamedTuple):
    loss: Float[Array, ""]
    pseudo: Float[Array, ""]
    opt: Float[Array, ""]
    square: Float[Array, ""]
    coupling: Float[Array, ""]


@entry
def two_layer_regret(
    net: BiasedTwoLayer,
    params: BiasedTwoLayerParams,
    data: Data,
    dW: Float[Array | np.ndarray, "m d"],
    *,
    loss: str | LearnerLoss = "pseudo-huber",
    learning_rate: int | float,
    steps: int,
    batch_size: int = 1,
    key: PRNGKeyArray,
) -> TwoLayerRegret:
    r"""Run Algorithm 1 and compare its losses with those of good weights, term by term.

    The pseudo network G is linear in W, so that its loss is convex. For every W* and every run,

    $$\frac1T \sum_t \big[ L_t(G(W_t)) - L_t(G(W_0 + W^*)) \big] \le
    \frac{\|W^*\|_F^2}{2 \eta T} + \frac{\eta}{2T} \sum_t \|\nabla L_t(F)\|_F^2
    + \frac1T \sum_t \langle \nabla L_t(G) - \nabla L_t(F),\, W_t - W_0 - W^* \rangle$$

    with $L_t$ the loss on the samples of step t. With the W* of `two_layer_weights` and the numbers
    of `two_layer_rates` the right-hand side is of the order of $\varepsilon$: the last term, by
    Lemma B.3, falls with the width.

    Source: arXiv:1811.04918 section B.4, proof of Theorem 1.

    Args:
        net: the learner, with ReLU.
        params: its initialisation.
        data: `(x, y)`, as in `two_layer_sgd`.
        dW: $W^*$, the movement to compare with, such as that of `two_layer_weights`.
        loss: as in `two_layer_sgd`; it must be convex.
        learning_rate: $\eta$.
        steps: T.
        batch_size: samples per step, drawn with replacement.
        key: for the samples.

    Example:
        >>> net = BiasedTwoLayer(inputs=2, width=16, init_scale=0.1)
        >>> params, data = net.init(key=jax.random.key(0)), (jnp.eye(2), jnp.ones(2))
        >>> found = two_layer_regret(
        ...     net, params, data, np.zeros((16, 2)), learning_rate=1.0, steps=50,
        ...     key=jax.random.key(1))
        >>> print(found.distance, found.regret <= found.bound)
        0.0 True
    """
    check_key(key)
    check_kind(net, BiasedTwoLayer)
    check_owner(params, net.shapes)
    check_positive(learning_rate, "learning_rate")
    for name, value in {"steps": steps, "batch_size": batch_size}.items():
        check_count(value, name)
    dtype = params.W.dtype
    x, y = check_learner_data(data, net.output_shape[:-1], dtype)
    check_learner_targets(loss, y)
    if np.shape(dW) != net.shapes["W"]:
        raise ValueError(
            f"`dW` must have shape {net.shapes['W']}, that of the hidden weights, "
            f"got dW.shape={np.shape(dW)}."
        )
    check_finite(dW, "dW")
    dW = jnp.asarray(dW, dtype)
    settings = SgdData(params, x, y, jnp.asarray(learning_rate, dtype), jnp.asarray(0), key)
    terms = _run(Algorithm1(net, learner_loss(loss), batch_size), settings, dW, steps)
    value, pseudo, opt, square, coupling = (
        float(np.mean(np.asarray(term, np.float64))) for term in terms
    )
    length = float(np.sum(np.square(np.asarray(dW, np.float64))))
    return TwoLayerRegret(
        loss=value,
        loss_gap=value - pseudo,
        opt=opt,
        regret=pseudo - opt,
        distance=length / (2 * learning_rate * steps),
        steps=learning_rate / 2 * square,
        coupling=coupling,
    )


@partial(jax.jit, static_argnums=(0, 3))
def _run(algorithm: Algorithm1, data: SgdData, dW: Float[Array, "m d"], steps: int) -> _Terms:
    net, loss, start = algorithm.net, algorithm.loss, data.params

    def one_step(W: Float[Array, "m d"], step: Array) -> tuple[Array, _Terms]:
        rows = algorithm.rows(step, data)
        x, y = data.x[rows], data.y[rows]
        pattern = sign_pattern(net, start, x)

        def of_learner(W: Array) -> Array:
            return mean_loss(loss, net(_with(start, W), x), y)

        def of_pseudo(W: Array) -> Array:
            return mean_loss(loss, pseudo_output(net, _with(start, W), x, pattern), y)

        value, slope = jax.value_and_grad(of_learner)(W)
        pseudo, pseudo_slope = jax.value_and_grad(of_pseudo)(W)
        best = start.W + dW
        coupling = jnp.sum((pseudo_slope - slope) * (W - best))
        terms = _Terms(value, pseudo, of_pseudo(best), jnp.sum(slope**2), coupling)
        return W - data.learning_rate * slope, terms

    return jax.lax.scan(one_step, start.W, jnp.arange(steps))[1]


def _with(params: BiasedTwoLayerParams, W: Float[Array, "m d"]) -> BiasedTwoLayerParams:
    return BiasedTwoLayerParams(W=W, b=params.b, a=params.a)
