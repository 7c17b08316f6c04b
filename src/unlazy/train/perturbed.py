# SPDX-License-Identifier: Apache-2.0
"""Gradient descent that leaves saddle points by small random kicks."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from unlazy.core.checks import check_count, check_finite, check_key, check_positive
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.frozen import Frozen
from unlazy.core.loss_calls import LossProgram, call_loss, check_loss_call, loss_program
from unlazy.core.panels import panel
from unlazy.core.summaries import counted
from unlazy.core.trained import Trained, partition
from unlazy.core.trees import global_norm, sphere_like
from unlazy.curvature import extreme_eigenvalues
from unlazy.train.curves import mark_kicks
from unlazy.train.history import History
from unlazy.train.loop import Progress, Record, run_loop
from unlazy.train.noisy import StochasticLoss, check_momentum, heavy_ball
from unlazy.train.precision import in_precision_of_params
from unlazy.train.stopping import StopRule

_STEP = 0.15  # learning rate times the largest curvature at the start


@dataclass(frozen=True)
class Perturbation:
    r"""When perturbed descent kicks, how far, and when it has arrived.

    The defaults are those of BL-29, whose first two are to be multiplied by $m^{-1/4}$: see
    `scaled`.

    Source: BL-29.
    """

    radius: float = 1e-3  # of the kick
    gradient_threshold: float = 2e-4  # a gradient norm that counts as stationary
    patience: int = 60  # steps without another kick
    decrease: float = 1e-6  # of the loss since the last kick, below which it has arrived

    @entry
    def __post_init__(self):
        for name in ("radius", "gradient_threshold", "decrease"):
            check_positive(getattr(self, name), name)
        check_count(self.patience, "patience", least=0, most=None)

    @classmethod
    @entry
    def scaled(cls, width: int) -> "Perturbation":
        r"""For a movement of a network of that width: radius and threshold times $m^{-1/4}$."""
        check_count(width, "width", most=None)
        scale = width**-0.25
        return cls(radius=1e-3 * scale, gradient_threshold=2e-4 * scale)


class PerturbedHistory(History):
    """A history, with the steps at which a kick took the place of a descent step."""

    perturbed_at: Int[np.ndarray, " k"]

    @entry
    def plot(
        self,
        ax: Axes | None = None,
        *,
        names: Sequence[str] | None = None,
        label: str | None = None,
    ) -> Axes:
        """Draw the loss and what was recorded, with a mark at the steps of kicks.

        Args:
            ax: as for `History.plot`.
            names: as for `History.plot`.
            label: as for `History.plot`.
        """
        ax = super().plot(ax, names=names, label=label)
        with panel(ax) as ax:
            mark_kicks(ax, self.perturbed_at)
        return ax

    def _more(self) -> list[str]:
        return [counted(len(self.perturbed_at), "kick")]


@entry
@in_precision_of_params
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

    If the gradient norm is at most `gradient_threshold`, more than `patience` steps after the last
    kick, the run ends if the loss fell by less than `decrease` since that kick. Otherwise the step
    is a kick: it moves by `radius` in a direction uniform on the sphere, and resets the momentum.
    Near a strict saddle a kick has a part along the negative curvature $-\gamma$, which then grows
    by a factor of about $1 + \eta\gamma/(1 - \beta)$ per step; plain descent stays.

    Source: BL-29, after Jin et al. 2017; their constants are in
    `papers.bai_lee2020.theoretical_perturbation`.

    Args:
        loss: `loss(params, data)`, a scalar, or `loss(params)` with data=None; with `stochastic` it
            is called with a fresh key last at each step.
        params: any pytree, such as an Equinox model, the `variables` of a Flax linen model or the
            state of Flax nnx; running statistics stay as they are.
        data: what the loss takes as second argument, whole; None for a loss without one.
        steps: how many updates at most, kicks included.
        learning_rate: by default 0.15 over the largest eigenvalue of the Hessian at the start.
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
        The history, with outcome "stopped" if the run ended before its last step.

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
    check_momentum(momentum)
    for leaf in jax.tree.leaves(data):
        check_finite(leaf, "data")
    trainable, rest = partition(params, trained)
    key_steps, key_spectrum = jr.split(key)
    if learning_rate is None:
        learning_rate = _natural_rate(loss, params, data, stochastic, trained, key_spectrum)
    check_positive(learning_rate, "learning_rate")
    program, arrays = loss_program(loss)
    descent = _PerturbedDescent(program, stochastic)
    constants = _Data(
        *(data, arrays, key_steps),
        *(jnp.asarray(value, float) for value in (learning_rate, momentum, rule.radius)),
        *(jnp.asarray(value, float) for value in (rule.gradient_threshold, rule.decrease)),
        patience=jnp.asarray(rule.patience),
    )
    state = _State(
        trainable,
        Frozen(rest),
        velocity=jax.tree.map(jnp.zeros_like, trainable),
        step=jnp.zeros((), int),
        kicks=jnp.zeros((), int),
        kicked_at=jnp.full(_most_kicks(steps, rule.patience), -1),
        before_kick=jnp.asarray(jnp.inf, float),
        arrived=jnp.zeros((), bool),
        loss=jnp.zeros(()),
    )
    loss_type = jax.eval_shape(descent.advance, state, constants)[0].dtype
    history = run_loop(
        descent,
        state._replace(loss=jnp.zeros((), loss_type)),
        constants,
        steps=steps,
        record={name: _OfParams(function) for name, function in (record or {}).items()},
        record_every=record_every,
        stop=stop,
        progress=progress,
    )
    return _trimmed(history, history.params)


class _Data(NamedTuple):
    """All that may change without compiling again."""

    data: Any
    loss: list[Any]  # the arrays that it holds
    key: PRNGKeyArray
    learning_rate: Float[Array, ""]
    momentum: Float[Array, ""]
    radius: Float[Array, ""]
    gradient_threshold: Float[Array, ""]
    decrease: Float[Array, ""]
    patience: Int[Array, ""]


class _State(NamedTuple):
    trainable: Any
    frozen: Frozen
    velocity: Any
    step: Int[Array, ""]
    kicks: Int[Array, ""]
    kicked_at: Int[Array, " k"]
    before_kick: Float[Array, ""]  # the loss where the last kick started
    arrived: Bool[Array, ""]
    loss: Float[Array, ""]  # of the latest step


class _Snapshot(NamedTuple):
    """What the loop takes for parameters, and at the end gives back with the state."""

    params: Any
    state: _State


@dataclass(frozen=True)
class _PerturbedDescent:
    loss: LossProgram
    stochastic: bool

    def step(self, state: _State, data: _Data) -> tuple[Float[Array, ""], _State]:
        # The loop goes on to its last step; what is left after the arrival must cost nothing.
        return jax.lax.cond(
            state.arrived, lambda: (state.loss, state), lambda: self.advance(state, data)
        )

    def advance(self, state: _State, data: _Data) -> tuple[Float[Array, ""], _State]:
        key_loss, key_kick = jr.split(jr.fold_in(data.key, state.step))
        key_loss = key_loss if self.stochastic else None

        def objective(trainable: Any) -> Float[Array, ""]:
            params = state.frozen.combined(trainable)
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
        return loss, kept._replace(arrived=arrived, loss=loss)

    def params(self, state: _State, data: _Data) -> _Snapshot:
        del data
        return _Snapshot(state.frozen.combined(state.trainable), state)


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
    moved, velocity = heavy_ball(
        state.trainable, state.velocity, gradient, data.learning_rate, data.momentum
    )
    return state._replace(trainable=moved, velocity=velocity, step=state.step + 1)


@dataclass(frozen=True)
class _OfParams:
    """A record of the parameters; equal for equal functions, so that nothing compiles twice."""

    function: Record

    def __call__(self, snapshot: _Snapshot) -> Array:
        return self.function(snapshot.params)


def _trimmed(history: History, end: _Snapshot) -> PerturbedHistory:
    """The history up to the arrival, if there was one."""
    steps, rows, state = history.steps.copy(), np.arange(len(history.steps)), end.state
    has_arrived = bool(state.arrived) and history.outcome != "diverged"
    if has_arrived:
        # The last row is the arrival, under the number of the loop's own last step.
        rows = np.append(np.flatnonzero(steps[:-1] < int(state.step)), len(steps) - 1)
        steps[-1] = int(state.step)
    return PerturbedHistory(
        params=end.params,
        final_step=int(state.step) if has_arrived else history.final_step,
        outcome="stopped" if has_arrived else history.outcome,
        steps=steps[rows],
        loss=history.loss[rows],
        records={name: values[rows] for name, values in history.records.items()},
        perturbed_at=np.asarray(state.kicked_at)[: int(state.kicks)],
    )


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
