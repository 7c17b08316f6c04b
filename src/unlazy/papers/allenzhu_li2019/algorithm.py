# SPDX-License-Identifier: Apache-2.0
"""Algorithm 1: one-pass SGD on the hidden layers of the residual learner, with two rates."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.core.checks import as_number, check_count, check_key, check_name
from unlazy.core.entries import entry
from unlazy.nets import ResNet3, ResNet3Params
from unlazy.papers.allenzhu_li2019.gradients import ResNet3Gradient, gradient_at, resnet3_patterns
from unlazy.papers.shared.learner_data import Data, check_learner_data
from unlazy.train.history import History
from unlazy.train.loop import Progress, Record, run_loop

Order = Literal["random", "sequential"]


class ResNetRun(eqx.Module):
    """A trained residual learner, with its risk along the way."""

    params: ResNet3Params  # after the last step
    increment: ResNet3Gradient  # what training added to the initialisation
    history: History  # its records have "risk", the mean of ||y - out||^2 over all of the data

    @property
    def risk(self) -> Float[np.ndarray, " t"]:
        """The risk at the steps `history.steps`."""
        return self.history.records["risk"]

    @property
    def mean_risk(self) -> float:
        """The mean of the recorded risks; the theorem bounds the mean over all steps."""
        return float(np.mean(self.risk, dtype=np.float64))


class _State(NamedTuple):
    increment: ResNet3Gradient
    step: Int[Array, ""]


class _Data(NamedTuple):
    params: ResNet3Params
    x: Float[Array, "n d"]
    y: Float[Array, "n k"]
    rate_w: Float[Array, ""]
    rate_v: Float[Array, ""]
    key: PRNGKeyArray


class _Now(NamedTuple):  # what the records are functions of
    params: ResNet3Params
    increment: ResNet3Gradient
    data: _Data


@dataclass(frozen=True)
class _Algorithm1:
    net: ResNet3
    order: Order

    def step(self, state: _State, data: _Data) -> tuple[Float[Array, ""], _State]:
        n = data.x.shape[0]
        if self.order == "random":
            row = jr.randint(jr.fold_in(data.key, state.step), (1,), 0, n)
        else:  # the loss after the last step is that of the last sample once more
            row = jnp.minimum(state.step, n - 1)[None]
        params, x, y = _moved(data.params, state.increment), data.x[row], data.y[row]
        at = resnet3_patterns(self.net, params, x)
        old, g = state.increment, gradient_at(at, params.A, x, y)
        increment = ResNet3Gradient(
            W=old.W - data.rate_w * g.W,
            b1=old.b1 - data.rate_w * g.b1,
            V=old.V - data.rate_v * g.V,
            b2=old.b2 - data.rate_v * g.b2,
        )
        return jnp.sum((at.out - y) ** 2) / 2, _State(increment, state.step + 1)

    def params(self, state: _State, data: _Data) -> _Now:
        return _Now(_moved(data.params, state.increment), state.increment, data)


@dataclass(frozen=True)
class _Risk:
    net: ResNet3

    def __call__(self, now: _Now) -> Float[Array, ""]:
        resid = self.net(now.params, now.data.x) - now.data.y
        return jnp.mean(jnp.sum(resid**2, axis=1))


@dataclass(frozen=True)
class _OfParams:
    """A record of the parameters; equal for equal functions, so that it compiles once."""

    record: Record

    def __call__(self, now: _Now) -> Array:
        return self.record(now.params)


@entry
def resnet_sgd(
    net: ResNet3,
    params: ResNet3Params,
    data: Data,
    *,
    rate_w: int | float = 0.1,
    rate_v: int | float = 0.1,
    steps: int,
    order: Order = "random",
    record: Mapping[str, Record] | None = None,
    record_every: int | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> ResNetRun:
    r"""Train the hidden layers of a residual learner by one-pass SGD, one fresh sample per step.

    $$W_{t+1} = W_t - \eta_w \nabla_W \tfrac12 \|y - \mathrm{out}(x)\|^2, \qquad
    V_{t+1} = V_t - \eta_v \nabla_V \tfrac12 \|y - \mathrm{out}(x)\|^2$$

    Both gradients are taken at the old point. Biases move with their layer, the output weights A
    are fixed. The theorem bounds the mean of the risk over all steps. The whole of `data` is the
    distribution: where it is enumerable, such as all corners of a cube, `run.risk` is exact.
    Training runs in the dtype of `params`.

    Source: RN-31, arXiv:1905.10337 Algorithm 1. In practice $\eta_w$ is 0.05 to 0.1 and
    $\eta_v/\eta_w$ 0.1 to 1; `papers.allenzhu_li2019.resnet_theory` has those of the theorem.

    Args:
        net: the learner, in bottleneck form.
        params: its initialisation; the theorem's is `init="theory"`.
        data: `(x, y)` with y of shape (n, k).
        rate_w: $\eta_w$; 0 leaves the first layer as it is, for training layer by layer.
        rate_v: $\eta_v$; 0 leaves the second layer as it is.
        steps: T.
        order: "random" draws a row of `data` per step, with replacement. "sequential" takes row t
            at step t, and needs as many rows as steps.
        record: named functions of the current parameters, as in `fit`; "risk" is there in any case.
        record_every: steps between two rows of the history; None for a hundred rows.
        progress: as in `fit`.
        key: for the samples.

    Raises:
        ValueError: an option out of its range, or data that do not fit the network.

    Example:
        >>> net = ResNet3(inputs=2, width=50, outputs=1)
        >>> params, data = net.init(key=jr.key(0)), (jnp.eye(2), jnp.ones((2, 1)))
        >>> run = resnet_sgd(net, params, data, steps=200, key=jr.key(1))
        >>> bool(run.risk[-1] < run.risk[0] / 10)
        True
    """
    check_key(key)
    check_count(steps, "steps")
    check_name(order, ["random", "sequential"], "order")
    for name, rate in (("rate_w", rate_w), ("rate_v", rate_v)):
        as_number(rate, name, least=0)
    if rate_w == rate_v == 0:
        raise ValueError("`rate_w` and `rate_v` must not both be 0: no layer would be trained.")
    if record is not None and "risk" in record:
        raise ValueError("`record` must not hold 'risk', which is recorded in any case.")
    x, y = check_learner_data(data, (net.outputs,), params.W.dtype)
    if order == "sequential" and x.shape[0] < steps:
        raise ValueError(
            f"`steps` must be at most the number of samples, {x.shape[0]}, for one pass, "
            f"got steps={steps}. Give more data, or order='random'."
        )
    start = jax.tree.map(jnp.zeros_like, _hidden(params))
    w, v = (jnp.asarray(rate, params.W.dtype) for rate in (rate_w, rate_v))
    history = run_loop(
        _Algorithm1(net, order),
        _State(start, jnp.zeros((), int)),
        _Data(params, x, y, rate_w=w, rate_v=v, key=key),
        steps=steps,
        record={name: _OfParams(function) for name, function in (record or {}).items()}
        | {"risk": _Risk(net)},
        record_every=max(1, steps // 100) if record_every is None else record_every,
        progress=progress,
    )
    now: _Now = history.params
    history = eqx.tree_at(lambda h: h.params, history, now.params)
    return ResNetRun(params=now.params, increment=now.increment, history=history)


def _hidden(params: ResNet3Params) -> ResNet3Gradient:
    return ResNet3Gradient(W=params.W, b1=params.b1, V=params.V, b2=params.b2)


def _moved(params: ResNet3Params, increment: ResNet3Gradient) -> ResNet3Params:
    W, b1, V, b2 = jax.tree.leaves(jax.tree.map(jnp.add, _hidden(params), increment))
    return ResNet3Params(W=W, b1=b1, V=V, b2=b2, A=params.A)
