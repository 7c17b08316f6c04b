# SPDX-License-Identifier: Apache-2.0
"""The compiled programs of a chunk of lanes: start, train from one epoch to another, evaluate.

A state has two leading axes: seeds, then settings. Settings are mapped inside of seeds, so that all
settings of a seed see the same arrays of inputs and a product with them is one plain product. On an
accelerator small batches are copied for every lane: then the product leaves its result in the order
of lanes that the next one wants, which saves a tenth of a step, or a fifth, in transpositions.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from unlazy.core.loss_calls import LossProgram
from unlazy.train.grid.layout import Layout, of_seeds
from unlazy.train.grid.order import epoch_order
from unlazy.train.grid.rules import UpdateRule


class Plan(NamedTuple):
    """What is compiled into the programs; hashable."""

    loss: LossProgram
    metric: LossProgram
    rule: UpdateRule
    layout: Layout
    structure: Any  # of the data
    data_axes: tuple[int | None, ...]
    sets: tuple[tuple[str, Any, tuple[int | None, ...]], ...]  # name, structure, axes
    samples: int
    batch_size: int | None
    at_once: int = 1  # lanes evaluated together
    own_batch: bool = False  # whether every lane has its copy of the batch

    def loss_of(self, trained: Any, frozen: list[Array], batch: Any) -> Array:
        """The loss of a lane, with the arrays that it holds itself."""
        arrays = frozen[self.layout.frozen_count :][: self.loss.count]
        return self.loss(arrays, self.layout.combine(trained, frozen), batch)

    def metric_of(self, trained: Any, frozen: list[Array], data: Any) -> Array:
        """The metric of a lane."""
        arrays = frozen[len(frozen) - self.metric.count :]
        return self.metric(arrays, self.layout.combine(trained, frozen), data)


class Shared(NamedTuple):
    """The arrays of the whole grid, which every chunk reads."""

    trained: Any  # (seeds, ...)
    frozen: list[Array]  # then the arrays of the loss, and of the metric if that is another
    data: list[Array]
    sets: list[list[Array]]
    lr: Float[Array, " settings"]
    wd: Float[Array, " settings"]
    scale: Float[Array, " epochs"]  # of the learning rate
    keys: Array  # one a seed


class State(NamedTuple):
    """A chunk in training."""

    trained: Any
    rule: Any
    loss: Float[Array, "epochs r g"]  # mean over the batches of the epoch; nan where none was


def start(plan: Plan, shared: Shared, rows: Int[Array, " r"], columns: Int[Array, " g"]) -> State:
    """Every lane of a seed at that seed's parameters."""

    def lane(trained: Any, lr: Array, wd: Array) -> tuple[Any, Any]:
        return trained, plan.rule.init(trained, lr, wd)

    over_settings = jax.vmap(lane, in_axes=(None, 0, 0))
    trained = jax.tree.map(lambda leaf: leaf[rows], shared.trained)
    trained, rule = jax.vmap(over_settings, in_axes=(0, None, None))(
        trained, shared.lr[columns], shared.wd[columns]
    )
    shape = (shared.scale.shape[0], rows.shape[0], columns.shape[0])
    return State(trained, rule, jnp.full(shape, jnp.nan, _loss_dtype(plan, shared)))


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

    Both are traced: one program serves every stretch of the training. Says too whether the loss of
    any lane was finite in the last of them.
    """
    lr, wd = shared.lr[columns], shared.wd[columns]
    frozen = of_seeds(shared.frozen, plan.layout.frozen_axes, rows)
    data, keys = of_seeds(shared.data, plan.data_axes, rows), shared.keys[rows]

    def epoch(number: Array, state: State) -> State:
        def of_seed(trained, rule, frozen, data, key):
            batches = _batches(plan, data, key, number)
            settings = (lr * shared.scale[number], wd)
            return _epoch(plan, trained, rule, frozen, batches, settings)

        axes = (0, 0, list(plan.layout.frozen_axes), list(plan.data_axes), 0)
        trained, rule, loss = _over_seeds(of_seed, axes, len(rows))(
            state.trained, state.rule, frozen, data, keys
        )
        return State(trained, rule, state.loss.at[number].set(loss))

    state = jax.lax.fori_loop(first, last, epoch, state)
    return state, jnp.any(jnp.isfinite(state.loss[last - 1]))


class Evaluation(NamedTuple):
    """The metric of every lane on every set, and which lanes are sound."""

    values: list[Float[Array, "r g"]]
    sound: Bool[Array, "r g"]


def evaluate(plan: Plan, state: State, shared: Shared, rows: Int[Array, " r"]) -> Evaluation:
    """`at_once` lanes at a time.

    Sound is a lane of finite parameters whose loss on the training set is finite too, if that is
    the metric: another may be infinite for reasons of its own.
    """
    frozen = of_seeds(shared.frozen, plan.layout.frozen_axes, rows)
    values = []
    for (_, structure, axes), leaves in zip(plan.sets, shared.sets, strict=True):

        def of_seed(trained, frozen, leaves, structure=structure):
            data = jax.tree.unflatten(structure, leaves)

            def lane(trained: Any) -> Array:
                return plan.metric_of(trained, frozen, data)

            return _over_lanes(lane, trained, plan.at_once)

        mapping = (0, list(plan.layout.frozen_axes), list(axes))
        arguments = (state.trained, frozen, of_seeds(leaves, axes, rows))
        together = plan.at_once >= state.loss.shape[1] * state.loss.shape[2]
        over_seeds = _over_seeds if together else _one_seed_at_a_time
        values.append(over_seeds(of_seed, mapping, len(rows))(*arguments))
    sound = jax.vmap(jax.vmap(_is_finite))(state.trained)
    if plan.metric is plan.loss:
        sound &= jnp.isfinite(values[0])
    return Evaluation(values, sound)


def _is_finite(trained: Any) -> Bool[Array, ""]:
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(trained)]
    return jnp.all(jnp.stack(finite))


def _epoch(plan: Plan, trained: Any, rule: Any, frozen: list[Array], batches, settings):
    def lane(trained, rule, lr, wd, batch):
        def objective(trained: Any) -> Array:
            return plan.loss_of(trained, frozen, batch)

        loss, gradient = jax.value_and_grad(objective)(trained)
        return *plan.rule.update(trained, gradient, rule, lr, wd), loss

    def step(carry, leaves):
        if plan.own_batch:
            leaves = _copies(leaves, settings[0].shape[0])
        batch = jax.tree.unflatten(plan.structure, leaves)
        axes = (0, 0, 0, 0, 0 if plan.own_batch else None)
        *carry, loss = jax.vmap(lane, in_axes=axes)(*carry, *settings, batch)
        return tuple(carry), loss

    count = batches[0].shape[0] if batches else 1  # a loss of the parameters alone has no batches
    (trained, rule), losses = jax.lax.scan(step, (trained, rule), batches, length=count)
    return trained, rule, jnp.mean(losses, axis=0)


def _copies(leaves: list[Array], count: int) -> list[Array]:
    copies = [jnp.broadcast_to(leaf, (count, *leaf.shape)) for leaf in leaves]
    return jax.lax.optimization_barrier(copies)  # else XLA sees that they are one


def _batches(plan: Plan, data: list[Array], key: Array, epoch: Array) -> list[Array]:
    """The data of an epoch, in its order, with a leading axis of batches."""
    if plan.batch_size is None:
        return [leaf[None] for leaf in data]
    count = plan.samples // plan.batch_size
    # Permuted once an epoch and then sliced: a gather in every step costs more than the step.
    order = epoch_order(key, epoch, plan.samples)[: count * plan.batch_size]
    return [leaf[order].reshape(count, plan.batch_size, *leaf.shape[1:]) for leaf in data]


def _over_seeds(function: Callable, axes: tuple, count: int) -> Callable:
    """`function` mapped over seeds; called plainly where there is one, which compiles to less."""
    if count > 1:
        return jax.vmap(function, in_axes=axes)

    def mapped(*arguments):
        return jax.tree.map(lambda leaf: leaf[None], function(*_of_seed(arguments, axes, 0)))

    return mapped


def _one_seed_at_a_time(function: Callable, axes: tuple, count: int) -> Callable:
    def mapped(*arguments):
        return jax.lax.map(lambda i: function(*_of_seed(arguments, axes, i)), jnp.arange(count))

    return mapped


def _of_seed(arguments: tuple, axes: tuple, i: int | Array) -> list[Any]:
    return [
        [leaf if a is None else leaf[i] for leaf, a in zip(argument, axis, strict=True)]
        if isinstance(axis, list)
        else jax.tree.map(lambda leaf: leaf[i], argument)
        for argument, axis in zip(arguments, axes, strict=True)
    ]


def _over_lanes(lane: Callable, trained: Any, at_once: int) -> Array:
    count = jax.tree.leaves(trained)[0].shape[0]
    if at_once >= count:
        return jax.vmap(lane)(trained)
    return jax.lax.map(lane, trained, batch_size=at_once)


def first_lane(plan: Plan, shared: Shared) -> tuple[Any, list[Array], list[Array]]:
    """The trained, the frozen and the data of the first seed."""
    axes = (0, list(plan.layout.frozen_axes), list(plan.data_axes))
    trained, frozen, data = _of_seed((shared.trained, shared.frozen, shared.data), axes, 0)
    return trained, frozen, data


def _loss_dtype(plan: Plan, shared: Shared) -> Any:
    def loss() -> Array:
        trained, frozen, leaves = first_lane(plan, shared)
        data = jax.tree.unflatten(plan.structure, leaves)
        return plan.loss_of(trained, frozen, data)

    return jax.eval_shape(loss).dtype
