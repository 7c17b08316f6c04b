# SPDX-License-Identifier: Apache-2.0
"""SGD with momentum and isotropic noise, for losses that may be stochastic themselves."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.core.checks import check_finite, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.frozen import Frozen
from unlazy.core.loss_calls import LossProgram, check_loss_call, loss_program
from unlazy.core.trained import Trained, partition
from unlazy.core.trees import count_entries, gaussian_like
from unlazy.train.batches import Batches, next_batch, start_batches
from unlazy.train.history import History
from unlazy.train.loop import Progress, Record, run_loop
from unlazy.train.precision import in_precision_of_params
from unlazy.train.stopping import StopRule

StochasticLoss = Callable[..., Float[Array, ""]]
"""A `Loss` that takes a key last, for a trainer called with `stochastic`."""

Schedule = Callable[[Any], Any]
"""The learning rate of a step, such as an optax schedule."""


class _Data(NamedTuple):
    data: Any
    loss: list[Any]  # the arrays that it holds
    key: PRNGKeyArray
    learning_rate: Float[Array, ""]  # not used with a schedule
    momentum: Float[Array, ""]
    spread: Float[Array, ""]  # standard deviation of each entry of the noise


class _State(NamedTuple):
    trainable: Any
    frozen: Frozen
    velocity: Any
    step: Int[Array, ""]
    batches: Batches | None


@dataclass(frozen=True)
class _NoisyDescent:
    loss: LossProgram
    schedule: Schedule | None
    batch_size: int | None
    stochastic: bool
    noisy: bool

    def step(self, state: _State, data: _Data) -> tuple[Float[Array, ""], _State]:
        key_loss, key_noise = jr.split(jr.fold_in(data.key, state.step))
        batches, batch = next_batch(state.batches, data.data, self.batch_size)

        def objective(trainable: Any) -> Float[Array, ""]:
            params = state.frozen.combined(trainable)
            return self.loss(data.loss, params, batch, key_loss if self.stochastic else None)

        loss, gradient = jax.value_and_grad(objective)(state.trainable)
        if self.noisy:
            noise = gaussian_like(gradient, key=key_noise)
            gradient = jax.tree.map(
                lambda g, u: g + data.spread.astype(g.dtype) * u, gradient, noise
            )
        rate = data.learning_rate
        if self.schedule is not None:
            with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic is not strict
                rate = self.schedule(state.step)
        trainable, velocity = heavy_ball(
            state.trainable, state.velocity, gradient, rate, data.momentum
        )
        return loss, _State(trainable, state.frozen, velocity, state.step + 1, batches)

    def params(self, state: _State, data: _Data) -> Any:
        del data
        return state.frozen.combined(state.trainable)


@entry
@in_precision_of_params
def noisy_sgd(
    loss: StochasticLoss,
    params: Any,
    data: Any,
    *,
    learning_rate: float | Schedule,
    steps: int,
    noise: int | float = 0.0,
    momentum: int | float = 0.0,
    batch_size: int | None = None,
    stochastic: bool = False,
    trained: Trained = None,
    record: Mapping[str, Record] | None = None,
    record_every: int = 1,
    stop: StopRule | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> History:
    r"""SGD with isotropic noise of a given expected length in every step.

    $$\theta \leftarrow \theta - \eta (g + \xi), \qquad \xi \sim N\big(0, \tfrac{r^2}{N} I\big)$$

    for $N$ trained parameters, so that $E\|\xi\|^2 = r^2$. With `noise` 0 and `stochastic` this is
    SGD on a randomised risk, which draws new signs at each step.

    Source: BL-28 and BL-29.

    Args:
        loss: `loss(params, batch)`, or `loss(params)` with data=None; with `stochastic` it takes a
            key last, `loss(params, batch, key)`, as `escape.RandomizedRisk` does.
        params: any pytree, such as an Equinox model, the `variables` of a Flax linen model or the
            state of Flax nnx; running statistics stay as they are.
        data: pytree of arrays, with one row per sample if `batch_size` is given; or None.
        learning_rate: a number, or a function of the step, such as an optax schedule. On a network
            of width m the natural one for a movement is of order $\sqrt m$.
        steps: how many updates.
        noise: r.
        momentum: heavy-ball momentum, from 0 to below 1.
        batch_size: samples per step, without replacement in each epoch; None means all of them.
        stochastic: whether the loss takes a key.
        trained: which parameters to train, as for `nets.partition`.
        record: as in `fit`.
        record_every: as in `fit`.
        stop: as in `fit`.
        progress: as in `fit`.
        key: for noise, batches and the loss. The run is a function of it; the noise of step t
            does not depend on how many steps follow.

    Returns:
        The history; its losses are those of the batches and keys of their steps.

    Example:
        >>> loss = lambda w, batch: jnp.mean((batch - w) ** 2)
        >>> history = noisy_sgd(
        ...     loss, jnp.zeros(()), jnp.ones(4), learning_rate=0.25, steps=3, key=jr.key(0)
        ... )
        >>> print(history.params)
        0.875
    """
    check_loss_call(loss, data, stochastic=stochastic)
    check_key(key)
    check_finite(noise, "noise")
    if noise < 0:
        raise ValueError(f"`noise` must be at least 0, got noise={noise}.")
    check_momentum(momentum)
    for leaf in jax.tree.leaves(data):
        check_finite(leaf, "data")
    schedule, rate = (learning_rate, 1.0) if callable(learning_rate) else (None, learning_rate)
    check_positive(rate, "learning_rate")
    trainable, rest = partition(params, trained)
    program, arrays = loss_program(loss)
    key_steps, key_order = jr.split(key)
    batches = None if batch_size is None else start_batches(data, batch_size, key=key_order)
    velocity = jax.tree.map(jnp.zeros_like, trainable)
    spread = noise / count_entries(trainable) ** 0.5
    return run_loop(
        _NoisyDescent(program, schedule, batch_size, stochastic, noise > 0),
        _State(trainable, Frozen(rest), velocity, jnp.zeros((), int), batches),
        _Data(
            data,
            arrays,
            key_steps,
            *(jnp.asarray(value, float) for value in (rate, momentum, spread)),
        ),
        steps=steps,
        record=record,
        record_every=record_every,
        stop=stop,
        progress=progress,
    )


def check_momentum(momentum: int | float) -> None:
    """Raise unless the momentum is from 0 to below 1."""
    if not 0 <= momentum < 1:
        raise ValueError(f"`momentum` must be from 0 to below 1, got momentum={momentum}.")


def heavy_ball(
    params: Any, velocity: Any, gradient: Any, rate: Any, momentum: Float[Array, ""]
) -> tuple[Any, Any]:
    """The next parameters and velocity, each in its own dtype."""
    velocity = jax.tree.map(lambda v, g: momentum.astype(v.dtype) * v + g, velocity, gradient)
    moved = jax.tree.map(lambda p, v: p - jnp.asarray(rate, p.dtype) * v, params, velocity)
    return moved, velocity
