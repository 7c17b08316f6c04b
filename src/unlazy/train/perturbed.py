# SPDX-License-Identifier: Apache-2.0
"""Gradient descent that leaves saddle points by small random kicks."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.loss_calls import LossProgram, call_loss, check_loss_call, loss_program
from unlazy.core.trained import Trained, partition
from unlazy.core.trees import global_norm, sphere_like
from unlazy.curvature import extreme_eigenvalues
from unlazy.train.finishing import run_to_finish
from unlazy.train.history import History
from unlazy.train.loop import Progress, Record
from unlazy.train.perturbation import Perturbation
from unlazy.train.stopping import StopRule

StochasticLoss = Callable[..., Float[Array, ""]]
"""A `Loss` that takes a key last, for a trainer called with `stochastic`."""

_STEP = 0.15  # learning rate times the largest curvature at the start


class PerturbedHistory(History):
    """A history, with the steps at which a kick took the place of a descent step."""

    perturbed_at: Int[np.ndarray, " k"]


class _Data(NamedTuple):
    """All that may change without compiling anew."""

    data: Any
    loss: list[Any]  # the arrays that it holds
    key: PRNGKeyArray
    learning_rate: Float[Array, ""]
    momentum: Float[Array, ""]
    radius: Float[Array, ""]
    gradient_threshold: Float[Array, ""]
    patience: Int[Array, ""]
    decrease: Float[Array, ""]


class _State(NamedTuple):
    trainable: Any
    frozen: Any
    velocity: Any
    step: Int[Array, ""]
    kicks: Int[Array, ""]
    kicked_at: Int[Array, " k"]
    before_kick: Float[Array, ""]  # the loss where the last kick started
    arrived: Bool[Array, ""]


@dataclass(frozen=True)
class _PerturbedDescent:
    loss: LossProgram
    stochastic: bool

    def step(self, state: _State, data: _Data) -> tuple[Float[Array, ""], _State]:
        key_loss, key_kick = jr.split(jr.fold_in(data.key, state.step))
        key_loss = key_loss if self.stochastic else None

        def objective(trainable: Any) -> Float[Array, ""]:
            params = eqx.combine(trainable, state.frozen)
            return self.loss(data.loss, params, data.data, key_loss)

        loss, gradient = jax.value_and_grad(objective)(state.trainable)
        last = state.kicked_at[jnp.maximum(state.kicks - 1, 0)]
        rested = (state.kicks == 0) | (state.step - last > data.patience)
        quiet = (global_norm(gradient) <= data.gradient_threshold) & rested
        arrived = quiet & (state.before_kick - loss < data.decrease)
        after = jax.lax.cond(
            quiet,
            lambda: _kick(state, loss, data.radius, key_kick),
            lambda: _descend(state, gradient, data),
        )
        kept = jax.tree.map(lambda old, new: jnp.where(arrived, old, new), state, after)
        return loss, kept._replace(arrived=arrived)

    def params(self, state: _State, data: _Data) -> Any:
        del data
        return eqx.combine(state.trainable, state.frozen)

    def finished(self, state: _State) -> Bool[Array, ""]:
        return state.arrived


def _kick(state: _State, loss: Float[Array, ""], radius: Array, key: PRNGKeyArray) -> _State:
    direction = sphere_like(state.trainable, key=key)
    moved = jax.tree.map(lambda p, u: p + radius.astype(p.dtype) * u, state.trainable, direction)
    return state._replace(
        trainable=moved,
        velocity=jax.tree.map(jnp.zeros_like, state.velocity),
        step=state.step + 1,
        kicks=state.kicks + 1,
        kicked_at=state.kicked_at.at[state.kicks].set(state.step),
        before_kick=loss.astype(state.before_kick.dtype),
    )


def _descend(state: _State, gradient: Any, data: _Data) -> _State:
    velocity = jax.tree.map(
        lambda v, g: data.momentum.astype(v.dtype) * v + g, state.velocity, gradient
    )
    moved = jax.tree.map(
        lambda p, v: p - data.learning_rate.astype(p.dtype) * v, state.trainable, velocity
    )
    return state._replace(trainable=moved, velocity=velocity, step=state.step + 1)


@entry
def perturbed_gradient_descent(
    loss: StochasticLoss,
    params: Any,
    data: Any,
    *,
    steps: int,
    learning_rate: float | None = None,
    momentum: int | float = 0.9,
    perturbation: Perturbation | None = None,
    stochastic: bool = False,
    trained: Trained = None,
    record: Mapping[str, Record] | None = None,
    record_every: int = 1,
    stop: StopRule | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> PerturbedHistory:
    r"""Full-batch descent with momentum, kicked where the gradient has all but vanished.

    Where the gradient norm is at most `gradient_threshold`, and more than `patience` steps have
    passed since the last kick: end, if the loss fell by less than `decrease` since then; otherwise
    move by `radius` in a direction uniform on the sphere, and forget the momentum. Near a strict
    saddle a kick has a part along the negative curvature $-\gamma$, which then grows by a factor
    of about $1 + \eta\gamma/(1 - \beta)$ a step; plain descent stays.

    Source: BL-29, after Jin et al. 2017; `theoretical_perturbation` has their constants.

    Args:
        loss: `loss(params, data)`, a scalar, or `loss(params)` with data=None; with `stochastic` it
            is called with a fresh key last at each step.
        params: any pytree of arrays.
        data: what the loss takes as second argument, whole; None for a loss without one.
        steps: how many updates at most, kicks included.
        learning_rate: of the descent; by default 0.15 over the largest eigenvalue of the Hessian at
            the start.
        momentum: heavy-ball momentum, from 0 to below 1.
        perturbation: radius, thresholds and patience.
        stochastic: whether the loss takes a key. Thresholds then apply to the noisy values.
        trained: which parameters to train, as for `nets.partition`.
        record: as in `fit`.
        record_every: as in `fit`.
        stop: as in `fit`.
        progress: as in `fit`.
        key: for the kicks, and for a stochastic loss.

    Returns:
        The history, with outcome "stopped" where descent believes to have arrived.

    Raises:
        ValueError: there is no positive curvature to choose a learning rate by.

    Example:
        >>> saddle = lambda w: (w[0] ** 2 - w[1] ** 2) / 2 + w[1] ** 4 / 4
        >>> history = perturbed_gradient_descent(
        ...     saddle, jnp.zeros(2), None, steps=1000, learning_rate=0.1, key=jr.key(0)
        ... )
        >>> print(history.outcome, history.perturbed_at[0], history.loss[-1].round(3))
        stopped 0 -0.25
    """
    check_loss_call(loss, data, stochastic=stochastic)
    check_key(key)
    check_count(steps, "steps", least=0)
    rule = Perturbation() if perturbation is None else perturbation
    if not 0 <= momentum < 1:
        raise ValueError(f"`momentum` must be from 0 to below 1, got momentum={momentum}.")
    for leaf in jax.tree.leaves(data):
        check_finite(leaf, "data")
    trainable, frozen = partition(params, trained)
    key_steps, key_spectrum = jr.split(key)
    if learning_rate is None:
        learning_rate = _natural_rate(loss, params, data, stochastic, trained, key_spectrum)
    check_positive(learning_rate, "learning_rate")
    program, arrays = loss_program(loss)
    state = _State(
        trainable,
        frozen,
        velocity=jax.tree.map(jnp.zeros_like, trainable),
        step=jnp.zeros((), int),
        kicks=jnp.zeros((), int),
        kicked_at=jnp.full(_most_kicks(steps, rule.patience), -1),
        before_kick=jnp.asarray(jnp.inf, float),
        arrived=jnp.zeros((), bool),
    )
    history, end = run_to_finish(
        _PerturbedDescent(program, stochastic),
        state,
        _constants(rule, learning_rate, momentum, (data, arrays), key_steps),
        steps=steps,
        record=record,
        record_every=record_every,
        stop=stop,
        progress=progress,
    )
    fields = {name: getattr(history, name) for name in History.__dataclass_fields__}
    return PerturbedHistory(**fields, perturbed_at=np.asarray(end.kicked_at)[: int(end.kicks)])


def _constants(
    rule: Perturbation, learning_rate: Any, momentum: Any, held: tuple[Any, list], key: PRNGKeyArray
) -> _Data:
    rate, momentum, radius, threshold, decrease = (
        jnp.asarray(value, float)
        for value in (
            *(learning_rate, momentum),
            *(rule.radius, rule.gradient_threshold, rule.decrease),
        )
    )
    patience = jnp.asarray(rule.patience)
    data, arrays = held
    return _Data(data, arrays, key, rate, momentum, radius, threshold, patience, decrease)


class _AtKey(eqx.Module):
    """A stochastic loss as one that takes its data and its key as a pair."""

    loss: StochasticLoss

    def __call__(self, params: Any, pair: tuple[Any, PRNGKeyArray]) -> Float[Array, ""]:
        """The loss with that key."""
        return call_loss(self.loss, params, *pair)


def _natural_rate(loss, params, data, stochastic, trained, key) -> float:
    key_start, key_loss = jr.split(key)
    if stochastic:
        loss, data = _AtKey(loss), (data, key_loss)
    ends = extreme_eigenvalues(loss, params, data=data, trained=trained, key=key_start)
    if not ends.largest > 0:
        raise ValueError(
            "`learning_rate` must be given where no curvature is positive, got "
            f"learning_rate=None with a largest eigenvalue of {ends.largest:.3g} at the start."
        )
    return _STEP / ends.largest


def _most_kicks(steps: int, patience: int) -> int:
    # A power of two, so that runs of similar length share one compiled chunk.
    return 2 ** math.ceil(math.log2(steps // (patience + 1) + 2))
