# SPDX-License-Identifier: Apache-2.0
"""The compiled programs of a chunk of lanes: its start, its training and its evaluation.

Training is `advance`: a loop over epochs of a `vmap` over seeds of a `scan` over mini-batches of a
`vmap` over settings. Settings are mapped inside seeds, so that all settings of a seed see the same
inputs and a product with them is one plain product.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from unlazy.core.compiling import compiled
from unlazy.core.convolutions import looped
from unlazy.core.current import program_of
from unlazy.train.grid.devices import described, on_each
from unlazy.train.grid.evaluation import Evaluation, evaluate
from unlazy.train.grid.memory import Need, Tiling
from unlazy.train.grid.problem import Plan, Shared, first_lane, of_seeds, over_seeds
from unlazy.train.grid.rules import epoch_order

# Bytes moved in all of training, some five seconds of it, from which on tuning pays: tuning takes
# two or three seconds, and without it training would take seven or more.
_MUCH_WORK = 2**44


class Programs(NamedTuple):
    """The compiled programs for one shape of chunk."""

    start: Callable[..., "State"]
    advance: Callable[..., tuple["State", Any]]
    evaluate: Callable[..., Evaluation]


def compile_programs(plan: Plan, shared: Shared, tiling: Tiling, need: Need) -> Programs:
    """The programs of `tiling`'s chunks, compiled side by side, on an accelerator as well.

    They are called from threads, in which the user's scoped settings of JAX do not hold.
    """
    rows = jax.ShapeDtypeStruct((tiling.rows,), jnp.int32)
    columns = jax.ShapeDtypeStruct((tiling.columns,), jnp.int32)
    epoch = jax.ShapeDtypeStruct((), jnp.int32)
    state = jax.eval_shape(partial(start, plan), shared, rows, columns)
    arguments = state, shared, rows, columns, epoch
    plan = plan._replace(program=program_of(partial(_called, plan), *arguments))
    state, rows, columns = described((state, rows, columns), plan.mesh)
    steps = shared.scale.shape[0] * (plan.samples // (plan.batch_size or plan.samples))
    much = steps * tiling.seeds * tiling.settings * need.lane > _MUCH_WORK
    lowered = (
        (_start.lower(plan, shared, rows, columns), False),
        (_advance.lower(plan, state, shared, rows, columns, epoch, epoch), much),
        (_evaluate.lower(plan, state.trained, shared, rows), False),
    )
    with ThreadPoolExecutor(len(lowered)) as pool:
        return Programs(*pool.map(lambda one: compiled(one[0], tuned=one[1]), lowered))


def _called(plan: Plan, state: Any, shared: Shared, rows: Any, columns: Any, epoch: Any) -> Any:
    """All three programs at once: their trace shows what the functions of the plan read."""
    return (
        start(plan, shared, rows, columns),
        advance(plan, state, shared, rows, columns, epoch, epoch),
        evaluate(plan, state.trained, shared, rows),
    )


class State(NamedTuple):
    """A chunk in training; its first two axes are seeds and settings."""

    trained: Any
    rule: Any
    loss: Float[Array, "epochs r g"]  # mean over the batches of the epoch; nan where none was


def start(plan: Plan, shared: Shared, rows: Int[Array, " r"], columns: Int[Array, " g"]) -> State:
    """Every lane of a seed at that seed's parameters."""

    def lane(trained: Any, lr: Array, wd: Array) -> tuple[Any, Any]:
        return trained, plan.rule.init(trained, lr, wd)

    def loss() -> Array:
        trained, frozen, leaves = first_lane(plan, shared)
        return plan.loss_of(trained, frozen, jax.tree.unflatten(plan.structure, leaves))

    over_settings = jax.vmap(lane, in_axes=(None, 0, 0))
    trained = jax.tree.map(lambda leaf: leaf[rows], shared.trained)
    trained, rule = jax.vmap(over_settings, in_axes=(0, None, None))(
        trained, shared.lr[columns], shared.wd[columns]
    )
    shape = (shared.scale.shape[0], rows.shape[0], columns.shape[0])
    return State(trained, rule, jnp.full(shape, jnp.nan, jax.eval_shape(loss).dtype))


def advance(
    plan: Plan,
    state: State,
    shared: Shared,
    rows: Int[Array, " r"],
    columns: Int[Array, " g"],
    first: Int[Array, ""],
    last: Int[Array, ""],
) -> tuple[State, Bool[Array, ""]]:
    """Train the epochs from `first` up to `last`, which is not among them.

    Both are traced: one program serves every stretch of the training. Also returns whether the loss
    of any lane was finite in the last of them.
    """
    lr, wd = shared.lr[columns], shared.wd[columns]
    frozen = of_seeds(shared.frozen, plan.layout.frozen_axes, rows)
    data, keys = of_seeds(shared.data, plan.data_axes, rows), shared.keys[rows]

    def epoch(number: Array, state: State) -> State:
        def of_seed(trained, rule, frozen, data, key):
            batches = _batches(plan, data, key, number)
            return _epoch(plan, trained, rule, frozen, batches, lr * shared.scale[number], wd)

        axes = (0, 0, list(plan.layout.frozen_axes), list(plan.data_axes), 0)
        trained, rule, loss = over_seeds(of_seed, axes, len(rows))(
            state.trained, state.rule, frozen, data, keys
        )
        return State(trained, rule, state.loss.at[number].set(loss))

    state = jax.lax.fori_loop(first, last, looped(epoch), state)
    return state, jnp.any(jnp.isfinite(state.loss[last - 1]))


def _epoch(plan: Plan, trained: Any, rule: Any, frozen: list[Array], batches, lr, wd):
    """One epoch of all settings of a seed: a scan over its batches."""

    def lane(trained, rule, lr, wd, batch):
        def objective(trained: Any) -> Array:
            return plan.loss_of(trained, frozen, batch)

        loss, gradient = jax.value_and_grad(objective)(trained)
        return *plan.rule.update(trained, gradient, rule, lr, wd), loss

    def step(carry, leaves):
        if plan.own_batch:
            # A copy for each lane, on an accelerator: then a product leaves its result in the order
            # of lanes that the next one wants, which saves a tenth of a step, or a fifth, in
            # transpositions. Without the barrier XLA would see that the copies are one.
            copies = [jnp.broadcast_to(leaf, (len(lr), *leaf.shape)) for leaf in leaves]
            leaves = jax.lax.optimization_barrier(copies)
        batch = jax.tree.unflatten(plan.structure, leaves)
        axes = (0, 0, 0, 0, 0 if plan.own_batch else None)
        *carry, loss = jax.vmap(lane, in_axes=axes)(*carry, lr, wd, batch)
        return tuple(carry), loss

    count = batches[0].shape[0] if batches else 1  # a loss of the parameters alone has no batches
    (trained, rule), losses = jax.lax.scan(step, (trained, rule), batches, length=count)
    return trained, rule, jnp.mean(losses, axis=0)


def _batches(plan: Plan, data: list[Array], key: Array, epoch: Array) -> list[Array]:
    """The data of an epoch, in its order, with a leading axis of batches."""
    if plan.batch_size is None:
        return [leaf[None] for leaf in data]
    count = plan.samples // plan.batch_size
    # Permuted once an epoch and then sliced: a gather in every step costs more than the step.
    order = epoch_order(key, epoch, plan.samples)[: count * plan.batch_size]
    return [leaf[order].reshape(count, plan.batch_size, *leaf.shape[1:]) for leaf in data]


@partial(jax.jit, static_argnums=0)
def _start(plan: Plan, *arguments: Any) -> State:
    return on_each(plan.mesh, partial(start, plan), (False, True, True))(*arguments)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def _advance(plan: Plan, *arguments: Any) -> tuple[State, Array]:
    own = (True, False, True, True, False, False)
    return on_each(plan.mesh, partial(advance, plan), own)(*arguments)


@partial(jax.jit, static_argnums=0)
def _evaluate(plan: Plan, *arguments: Any) -> Evaluation:
    return on_each(plan.mesh, partial(evaluate, plan), (True, False, True))(*arguments)
