# SPDX-License-Identifier: Apache-2.0
"""Gradient descent and mini-batch SGD with any optax optimiser."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_finite, check_key
from unlazy.core.entries import entry
from unlazy.core.frozen import Frozen
from unlazy.core.loss_calls import Loss, LossProgram, check_loss_call, loss_program, needs_data
from unlazy.core.trained import Trained, partition
from unlazy.train.batches import Batches, count_rows, next_batch, start_batches
from unlazy.train.history import History
from unlazy.train.loop import Progress, Record, run_loop
from unlazy.train.precision import in_precision_of_params
from unlazy.train.stopping import StopRule


class _Data(NamedTuple):
    data: Any
    loss: list[Any]  # the arrays that it holds


class _State(NamedTuple):
    trainable: Any
    frozen: Frozen
    optimizer: Any
    batches: Batches | None


@dataclass(frozen=True)
class _Descent:
    loss: LossProgram
    optimizer: optax.GradientTransformation
    batch_size: int | None

    def step(self, state: _State, data: _Data) -> tuple[Float[Array, ""], _State]:
        batches, batch = next_batch(state.batches, data.data, self.batch_size)

        def objective(trainable):
            return self.loss(data.loss, state.frozen.combined(trainable), batch)

        loss, gradient = jax.value_and_grad(objective)(state.trainable)
        with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic is not strict
            update, after = optax.with_extra_args_support(self.optimizer).update(
                *(gradient, state.optimizer, state.trainable),
                # For a line search; other optimisers take no notice.
                **{"value": loss, "grad": gradient, "value_fn": objective},
            )
            trainable = optax.apply_updates(state.trainable, update)
        after = as_before(after, state.optimizer)
        return loss, _State(trainable, state.frozen, after, batches)

    def params(self, state: _State, data: _Data) -> Any:
        del data
        return state.frozen.combined(state.trainable)


@entry
@in_precision_of_params
def fit(
    loss: Loss,
    params: Any,
    data: Any,
    *,
    optimizer: optax.GradientTransformation,
    steps: int,
    batch_size: int | None = None,
    trained: Trained = None,
    record: Mapping[str, Record] | None = None,
    record_every: int = 1,
    stop: StopRule | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray | None = None,
) -> History:
    """Train by full-batch gradient descent, or by SGD over mini-batches.

    The steps are compiled in up to fifty chunks, all by the same program; a second call with an
    equal loss, the same optimiser object and about as many steps compiles nothing. What the loss,
    the records, the optimiser or the stop rule read from outside may change between two calls:
    they are traced at each call, and compiled anew if they compute something else.

    Args:
        loss: `loss(params, batch)`, a scalar; `batch` has the structure of `data`. Or
            `loss(params)` with data=None, such as `papers.nichani2022.RegularizedRisk`. Arrays
            that an `eqx.Module` holds are no constants of the compiled program: another risk of
            the same shapes compiles nothing.
        params: any pytree, such as an Equinox model, the `variables` of a Flax linen model or the
            state of Flax nnx; running statistics stay as they are.
        data: pytree of arrays with one row per sample, such as `(x, y)`; None for a loss of the
            parameters alone.
        optimizer: any optax optimiser, such as `optax.sgd(1e-3)`, or `optax.lbfgs()` with its line
            search. L-BFGS stays at a saddle point, such as W = 0 of a quadratic or randomised risk.
        steps: how many updates.
        batch_size: samples per step, without replacement in each epoch; None means all of them.
        trained: which parameters to train, as for `nets.partition`: None for all, "hidden",
            "weights" or "last" for our learners, booleans or a function of a leaf's path.
        record: named functions of the parameters, evaluated every `record_every` steps.
        record_every: steps between two rows of the history; the first and the last are in any case.
        stop: rule that ends the run early, such as `RelativeLossBelow(1e-4)`.
        progress: called with (steps done, steps in all) after each chunk.
        key: for the order of the mini-batches; needed when `batch_size` is given.

    Returns:
        The history. A loss that is no longer finite ends the run: the history is kept up to there,
        with outcome "diverged" and the parameters of the last finite loss.

    Raises:
        ValueError: `batch_size` exceeds the number of samples, `data` is ragged, or `key` is
            missing.

    Example:
        >>> import jax.numpy as jnp
        >>> loss = lambda w, batch: jnp.sum((batch[0] @ w - batch[1]) ** 2) / 2
        >>> data = (jnp.eye(2), jnp.array([1.0, -2.0]))
        >>> history = fit(loss, jnp.zeros(2), data, optimizer=optax.sgd(0.5), steps=3)
        >>> print(history.loss)
        [2.5       0.625     0.15625   0.0390625]
    """
    check_loss_call(loss, data)
    if data is not None or batch_size is not None or needs_data(loss):
        count_rows(data)
    for leaf in jax.tree.leaves(data):
        check_finite(leaf, "data")
    if not isinstance(optimizer, optax.GradientTransformation):
        raise TypeError(
            "`optimizer` must be an optax optimiser, such as optax.sgd(0.1), "
            f"got optimizer={optimizer!r}."
        )
    batches = None
    if batch_size is not None:
        if key is None:
            raise ValueError("`key` must be given when `batch_size` is, got key=None.")
        check_key(key)
        batches = start_batches(data, batch_size, key=key)
    trainable, rest = partition(params, trained)
    program, arrays = loss_program(loss)
    with jax.numpy_dtype_promotion("standard"):
        state = _State(trainable, Frozen(rest), optimizer.init(trainable), batches)
    return run_loop(
        _Descent(program, optimizer, batch_size),
        state,
        _Data(data, arrays),
        steps=steps,
        record=record,
        record_every=record_every,
        stop=stop,
        progress=progress,
    )


def as_before(after: Any, before: Any) -> Any:
    """An optimiser's state in the dtypes of the one before, as a loop must carry it.

    Float64 scalars would turn a float32 state into a float64 one.
    """
    return jax.tree.map(lambda new, old: jnp.asarray(new, jnp.asarray(old).dtype), after, before)
