# SPDX-License-Identifier: Apache-2.0
"""L-BFGS with a line search, through the common loop."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float

from unlazy.core.checks import check_count, check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.core.loss_calls import Loss, LossProgram, check_loss_call, loss_program
from unlazy.core.trained import Trained, partition
from unlazy.core.trees import global_norm
from unlazy.train.finishing import run_to_finish
from unlazy.train.history import History
from unlazy.train.loop import Progress, Record
from unlazy.train.stopping import StopRule


class _Data(NamedTuple):
    data: Any
    loss: list[Any]  # the arrays that it holds
    scale: Float[Array, ""]
    tolerance: Float[Array, ""]


class _State(NamedTuple):
    scaled: Any  # the trained parameters over `scale`
    frozen: Any
    optimizer: Any
    converged: Bool[Array, ""]


@dataclass(frozen=True)
class _QuasiNewton:
    loss: LossProgram
    memory: int

    def step(self, state: _State, data: _Data) -> tuple[Float[Array, ""], _State]:
        def objective(scaled: Any) -> Float[Array, ""]:
            return self.loss(data.loss, self._combined(scaled, state.frozen, data), data.data)

        optimizer = _optimizer(self.memory)
        # Not strict, because optax's own arithmetic is not.
        with jax.numpy_dtype_promotion("standard"):
            loss, gradient = optax.value_and_grad_from_state(objective)(
                state.scaled, state=state.optimizer
            )
            converged = global_norm(gradient) <= data.tolerance
            update, following = optimizer.update(
                *(gradient, state.optimizer, state.scaled),
                value=loss,
                grad=gradient,
                value_fn=objective,
            )
            scaled = optax.apply_updates(state.scaled, update)
        after = _State(scaled, state.frozen, following, converged)
        kept = jax.tree.map(
            lambda old, new: jnp.where(converged, old, new.astype(old.dtype)), state, after
        )
        return jnp.asarray(loss), kept._replace(converged=converged)

    def params(self, state: _State, data: _Data) -> Any:
        return self._combined(state.scaled, state.frozen, data)

    def finished(self, state: _State) -> Bool[Array, ""]:
        return state.converged

    def _combined(self, scaled: Any, frozen: Any, data: _Data) -> Any:
        trained = jax.tree.map(lambda v: data.scale.astype(v.dtype) * v, scaled)
        return eqx.combine(trained, frozen)


@entry
def lbfgs(
    loss: Loss,
    params: Any,
    data: Any,
    *,
    steps: int,
    memory: int = 20,
    scale: int | float = 1.0,
    tolerance: int | float = 1e-7,
    trained: Trained = None,
    record: Mapping[str, Record] | None = None,
    record_every: int = 1,
    stop: StopRule | None = None,
    progress: Progress | None = None,
) -> History:
    r"""L-BFGS with a zoom line search, deterministic and full-batch.

    The variables are $\theta / c$ for the given `scale` c: its steps start from a multiple of the
    identity, which should fit the problem. For a movement of a network of width m take
    $c = m^{-1/4}$, the size of a neuron's movement.

    Do not start at a saddle point ($W = 0$ is one of the quadratic and of the randomised risk):
    descent methods stay there.

    Source: BL-31; the method is `optax.lbfgs`.

    Args:
        loss: `loss(params, data)`, a scalar, or `loss(params)` with data=None.
        params: any pytree of arrays.
        data: what the loss takes as second argument, whole; None for a loss without one.
        steps: how many iterations at most; each evaluates the loss a few times.
        memory: pairs of differences that are kept.
        scale: c.
        tolerance: norm of the gradient with respect to $\theta / c$ at which it ends.
        trained: which parameters to train, as for `nets.partition`.
        record: as in `fit`.
        record_every: as in `fit`.
        stop: as in `fit`.
        progress: as in `fit`.

    Returns:
        The history, with outcome "stopped" where the gradient is below the tolerance.

    Example:
        >>> valley = lambda w: (1 - w[0]) ** 2 + 100 * (w[1] - w[0] ** 2) ** 2
        >>> history = lbfgs(valley, jnp.zeros(2), None, steps=60, tolerance=1e-4)
        >>> print(history.params.round(3))
        [1. 1.]
    """
    check_loss_call(loss, data)
    check_count(memory, "memory")
    check_positive(scale, "scale")
    check_finite(tolerance, "tolerance")
    if tolerance < 0:
        raise ValueError(f"`tolerance` must be at least 0, got tolerance={tolerance}.")
    for leaf in jax.tree.leaves(data):
        check_finite(leaf, "data")
    trainable, frozen = partition(params, trained)
    scaled = jax.tree.map(lambda p: p / jnp.asarray(scale, p.dtype), trainable)
    with jax.numpy_dtype_promotion("standard"):
        optimizer = _optimizer(memory).init(scaled)
    program, arrays = loss_program(loss)
    return run_to_finish(
        _QuasiNewton(program, memory),
        _State(scaled, frozen, optimizer, jnp.zeros((), bool)),
        _Data(data, arrays, jnp.asarray(scale, float), jnp.asarray(tolerance, float)),
        steps=steps,
        record=record,
        record_every=record_every,
        stop=stop,
        progress=progress,
    ).history


@lru_cache
def _optimizer(memory: int) -> optax.GradientTransformationExtraArgs:
    return optax.lbfgs(memory_size=memory)
