# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1: SGD on the hidden weights of a two-layer learner."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_name, check_positive
from unlazy.core.entries import entry
from unlazy.nets import BiasedTwoLayer, BiasedTwoLayerParams
from unlazy.nets.checking import check_kind, check_owner
from unlazy.papers.shared.learner_data import Data, check_learner_data, mean_loss
from unlazy.papers.shared.learner_losses import LearnerLoss, check_learner_targets, learner_loss
from unlazy.train.history import History
from unlazy.train.loop import Progress, Record, run_loop

Iterate = Literal["random", "average", "last"]


class TwoLayerRun(eqx.Module):
    """The result of `two_layer_sgd`: three iterates, and the history."""

    params: BiasedTwoLayerParams  # the iterate that was asked for
    random: BiasedTwoLayerParams  # after a step drawn uniformly from 1 to the last
    average: BiasedTwoLayerParams  # mean over the iterates after each step
    last: BiasedTwoLayerParams
    random_step: int
    history: History  # its params are the last; the loss of row t is that of the batch of step t


class _State(NamedTuple):
    last: Float[Array, "m d"]
    average: Float[Array, "m d"]
    random: Float[Array, "m d"]
    step: Int[Array, ""]


class _Iterates(NamedTuple):
    last: BiasedTwoLayerParams
    average: BiasedTwoLayerParams
    random: BiasedTwoLayerParams


class SgdData(NamedTuple):
    """What a run of Algorithm 1 is given."""

    params: BiasedTwoLayerParams
    x: Float[Array, "n d"]
    y: Float[Array, "n *c"]
    learning_rate: Float[Array, ""]
    random_step: Int[Array, ""]
    key: PRNGKeyArray


@dataclass(frozen=True)
class Algorithm1:
    """The step of Algorithm 1, and the samples that it draws."""

    net: BiasedTwoLayer
    loss: LearnerLoss
    batch_size: int

    def rows(self, step: Int[Array, ""], data: SgdData) -> Int[Array, " batch"]:
        """The samples of a step, drawn with replacement."""
        key = jr.fold_in(data.key, step)
        return jr.randint(key, (self.batch_size,), 0, data.x.shape[0])

    def step(self, state: _State, data: SgdData) -> tuple[Float[Array, ""], _State]:
        rows = self.rows(state.step, data)

        def objective(W: Float[Array, "m d"]) -> Float[Array, ""]:
            outputs = self.net(_with(data.params, W), data.x[rows])
            return mean_loss(self.loss, outputs, data.y[rows])

        loss, gradient = jax.value_and_grad(objective)(state.last)
        W = state.last - data.learning_rate * gradient
        step = state.step + 1
        # A running mean, not a sum: in float32 a sum over 1e6 iterates would lose what moves.
        average = state.average + (W - state.average) / step.astype(W.dtype)
        random = jnp.where(step == data.random_step, W, state.random)
        return loss, _State(W, average, random, step)

    def params(self, state: _State, data: SgdData) -> _Iterates:
        return _Iterates(*(_with(data.params, W) for W in state[:3]))


@dataclass(frozen=True)
class _OfLast:
    """Record the last iterate; equal for equal functions, so that nothing compiles twice."""

    record: Record

    def __call__(self, iterates: _Iterates) -> Array:
        return self.record(iterates.last)


@entry
def two_layer_sgd(
    net: BiasedTwoLayer,
    params: BiasedTwoLayerParams,
    data: Data,
    *,
    loss: str | LearnerLoss = "pseudo-huber",
    learning_rate: int | float | None = None,
    steps: int | None = None,
    batch_size: int = 1,
    iterate: Iterate = "random",
    record: Mapping[str, Record] | None = None,
    record_every: int | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> TwoLayerRun:
    r"""Train the hidden weights of a two-layer learner by plain SGD.

    $$W_t = W_{t-1} - \eta \nabla_W L(F(x; W_{t-1}), y)$$

    with fresh samples in each step. Theorem 1 bounds the mean of the population loss over the
    iterates, so that a uniformly random one attains it in expectation. So does their average, for a
    convex loss and as far as the network is linear in the movement.

    For $\|x\| \le 1$ no neuron moves far, whatever the data: if the loss is L-Lipschitz in the k
    outputs,

    $$\|W_t - W_0\|_{2,\infty} \le \eta\, t\, L \sqrt k\, \max_{r,i} |a_{r,i}|$$

    with L = 1 for "pseudo-huber", $L = \sqrt k$ for "logistic" and "log-cosh", and $L = \sqrt 2$
    for "cross-entropy".

    Training runs in the dtype of `params`. Biases and output weights are not trained.

    Source: LG-21, arXiv:1811.04918 Algorithm 1; the bound is LG-38, Lemma B.3.

    Args:
        net: the learner.
        params: its initialisation.
        data: `(x, y)`, with y of shape (n,), or (n, k) for k outputs.
        loss: "cross-entropy", for rows of y with the probabilities of k classes, a name for
            `losses.pointwise`, or a loss. For k > 1 outputs "pseudo-huber" is that of
            the residuals' norm, $\sqrt{1 + \|f - y\|^2} - 1$, 1-Lipschitz as for one output; others
            are summed over outputs, with a Lipschitz constant of $\sqrt k$ times their own.
        learning_rate: $\eta$; None for $2/(\varepsilon_a m)$, with $\varepsilon_a$ the root mean
            square of the output weights.
        steps: T; None for 10 n.
        batch_size: samples per step, drawn with replacement.
        iterate: which to return as `params`: "random", "average" or "last".
        record: named functions of the current parameters, as in `fit`.
        record_every: steps between two rows of the history; None for a hundred rows.
        progress: as in `fit`.
        key: for the samples and the random iterate.

    Example:
        >>> net = BiasedTwoLayer(inputs=2, width=16, init_scale=0.1)
        >>> params, data = net.init(key=jr.key(0)), (jnp.eye(2), jnp.ones(2))
        >>> run = two_layer_sgd(net, params, data, steps=200, iterate="last", key=jr.key(1))
        >>> bool(run.history.loss[-1] < run.history.loss[0] / 10)
        True
    """
    check_key(key)
    check_kind(net, BiasedTwoLayer)
    check_owner(params, net.shapes)
    check_count(batch_size, "batch_size")
    check_name(iterate, ["random", "average", "last"], "iterate")
    x, y = check_learner_data(data, net.output_shape[:-1], params.W.dtype)
    check_learner_targets(loss, y)
    steps = 10 * x.shape[0] if steps is None else steps
    check_count(steps, "steps")
    rate = _default_rate(params) if learning_rate is None else learning_rate
    check_positive(rate, "learning_rate")
    key_steps, key_choice = jr.split(key)
    chosen = jr.randint(key_choice, (), 1, steps + 1)
    history = run_loop(
        Algorithm1(net, learner_loss(loss), batch_size),
        _State(params.W, params.W, params.W, jnp.zeros((), int)),
        SgdData(params, x, y, jnp.asarray(rate, params.W.dtype), chosen, key_steps),
        steps=steps,
        record={name: _OfLast(function) for name, function in (record or {}).items()},
        record_every=max(1, steps // 100) if record_every is None else record_every,
        progress=progress,
    )
    ends, random_step = history.params, int(chosen)
    if history.final_step < random_step:  # diverged before the step that was drawn
        ends, random_step = ends._replace(random=ends.last), history.final_step
    return TwoLayerRun(
        params=getattr(ends, iterate),
        **ends._asdict(),
        random_step=random_step,
        history=eqx.tree_at(lambda h: h.params, history, ends.last),
    )


def _with(params: BiasedTwoLayerParams, W: Float[Array, "m d"]) -> BiasedTwoLayerParams:
    return BiasedTwoLayerParams(W=W, b=params.b, a=params.a)


def _default_rate(params: BiasedTwoLayerParams) -> float:
    scale = float(np.sqrt(np.mean(np.asarray(params.a, np.float64) ** 2)))
    check_positive(scale, "params.a")
    return 2 / (scale * params.W.shape[0])
