# SPDX-License-Identifier: Apache-2.0
"""The user's loss, parameters and data as a hashable plan to compile and the arrays it reads."""

import dataclasses
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy.core.frozen import Setting
from unlazy.core.loss_calls import Loss, LossProgram, loss_program, needs_data
from unlazy.core.trained import Trained, partition
from unlazy.train.grid.checks import (
    check_arrays,
    check_seed_axis,
    check_start,
    representable,
    samples_of,
)
from unlazy.train.grid.rules import UpdateRule, seed_key

Axes = Any
"""None or "seed" for a whole tree, or a tree of them that is a prefix of it."""

SeedAxes = tuple[int | None, ...]
"""For each array of a list 0 if it has a leading axis of seeds, None if all seeds share it."""


@dataclass(frozen=True)
class Layout:
    """What the parameters hold besides trained arrays: frozen arrays and others; hashable."""

    frozen: Any  # structure of the frozen arrays
    static: Any  # structure of functions and the like
    statics: tuple[Setting, ...]
    frozen_axes: SeedAxes

    def combine(self, trained: Any, frozen: list[Array]) -> Any:
        """The parameters as the loss takes them."""
        arrays = jax.tree.unflatten(self.frozen, frozen[: self.frozen.num_leaves])
        statics = jax.tree.unflatten(self.static, [setting.leaf for setting in self.statics])
        return eqx.combine(trained, arrays, statics)


class Plan(NamedTuple):
    """What is compiled into the programs; hashable."""

    loss: LossProgram
    metric: LossProgram
    rule: UpdateRule
    layout: Layout
    sets: tuple[tuple[str, Any, SeedAxes], ...]  # name, structure, axes; "train" first
    samples: int
    batch_size: int | None = None
    at_once: int = 1  # lanes evaluated together
    own_batch: bool = False  # whether every lane has its copy of the batch
    program: Hashable = None  # of training, as the functions above are now
    mesh: Mesh | None = None  # its devices train one chunk each

    @property
    def devices(self) -> int:
        """How many devices train."""
        return 1 if self.mesh is None else self.mesh.size

    @property
    def structure(self) -> Any:
        """The structure of the training data."""
        return self.sets[0][1]

    @property
    def data_axes(self) -> SeedAxes:
        """The axes of the training data."""
        return self.sets[0][2]

    def loss_of(self, trained: Any, frozen: list[Array], batch: Any) -> Array:
        """The loss of a lane."""
        arrays = frozen[self.layout.frozen.num_leaves :][: self.loss.count]
        return self.loss(arrays, self.layout.combine(trained, frozen), batch)

    def metric_of(self, trained: Any, frozen: list[Array], data: Any) -> Array:
        """The metric of a lane."""
        arrays = frozen[len(frozen) - self.metric.count :]
        return self.metric(arrays, self.layout.combine(trained, frozen), data)


class Shared(NamedTuple):
    """The arrays of the whole grid, which every chunk reads."""

    trained: Any  # (seeds, ...)
    frozen: list[Array]  # then the arrays of the loss, and of the metric if that is another
    sets: list[list[Array]]
    lr: Float[Array, " settings"]
    wd: Float[Array, " settings"]
    scale: Float[Array, " epochs"]  # of the learning rate
    keys: Array  # one per seed

    @property
    def data(self) -> list[Array]:
        """The training data."""
        return self.sets[0]


@dataclass(frozen=True)
class Problem:
    """What is trained, on what, and by which rule."""

    loss: Loss
    metric: Loss
    rule: UpdateRule
    params: Any
    data: Any
    sets: Mapping[str, Any]
    trained: Trained
    params_axes: Axes
    data_axes: Axes

    def set_up(
        self,
        rates: Float[np.ndarray, " l"],
        decays: Float[np.ndarray, " w"],
        scale: Float[np.ndarray, " epochs"],
        seeds: Int[np.ndarray, " s"],
        *,
        key: PRNGKeyArray | None,
    ) -> tuple[Plan, Shared]:
        """The plan, for full batches so far, and the arrays."""
        check_start(self.params)
        key = jr.key(0) if key is None else key  # full batches need none
        layout, trained, frozen = lay_out(self.params, self.trained, self.params_axes, len(seeds))
        loss, held = loss_program(self.loss)
        metric, others = (loss, []) if self.metric is self.loss else loss_program(self.metric)
        held = [jnp.asarray(array) for array in (*held, *others)]
        axes = (*layout.frozen_axes, *(None for _ in held))
        layout = dataclasses.replace(layout, frozen_axes=axes)
        named = {"train": self.data, **self.sets}
        flat = [self._flat(name, data, len(seeds)) for name, data in named.items()]
        sets = tuple((name, *one[:2]) for name, one in zip(named, flat, strict=True))
        plan = Plan(loss, metric, self.rule, layout, sets, samples=flat[0][3])
        dtype = jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(trained)))
        rates = representable(rates, dtype, "learning_rates")
        decays = representable(decays, dtype, "weight_decays")
        lr, wd = (grid.ravel() for grid in np.meshgrid(rates, decays, indexing="ij"))
        return plan, Shared(
            trained=trained,
            frozen=[*frozen, *held],
            sets=[one[2] for one in flat],
            lr=jnp.asarray(lr, dtype),
            wd=jnp.asarray(wd, dtype),
            scale=jnp.asarray(scale, dtype),
            keys=jax.vmap(partial(seed_key, key))(jnp.asarray(seeds, jnp.uint32)),
        )

    def _flat(self, name: str, data: Any, seeds: int) -> tuple[Any, SeedAxes, list[Array], int]:
        """The structure, the axes and the arrays of a set, and its number of samples."""
        label = "data" if name == "train" else f"evaluate[{name!r}]"
        if data is None and self.data is None and not needs_data(self.loss):
            return jax.tree.structure(None), (), [], 1
        leaves, structure = jax.tree.flatten(data)
        check_arrays(leaves, label)
        axes = _with_none(leaf_axes(self.data_axes, data, label, "data_axes"))
        check_seed_axis(leaves, axes, seeds, label, "data_axes")
        samples = samples_of(leaves, axes, label)
        return structure, tuple(axes), [jnp.asarray(leaf) for leaf in leaves], samples


def lay_out(
    params: Any, trained: Trained, axes: Axes, seeds: int
) -> tuple[Layout, Any, list[Array]]:
    """The layout, the trained part with a leading axis of seeds, and the frozen arrays."""
    per_leaf = _with_none(leaf_axes(axes, params, "params", "params_axes"))
    check_seed_axis(_with_none(params), per_leaf, seeds, "params", "params_axes")
    part, rest = partition(params, trained)
    frozen, static = eqx.partition(rest, eqx.is_array)
    frozen_axes = [
        axis for leaf, axis in zip(_with_none(frozen), per_leaf, strict=True) if leaf is not None
    ]
    stacked = [
        # By NumPy: JAX would compile a program for each shape, half a second in all.
        leaf
        if leaf is None or axis == 0
        else jnp.asarray(np.broadcast_to(np.asarray(leaf), (seeds, *leaf.shape)))
        for leaf, axis in zip(_with_none(part), per_leaf, strict=True)
    ]
    statics, static_structure = jax.tree.flatten(static)
    arrays, frozen_structure = jax.tree.flatten(frozen)
    settings = tuple(Setting(leaf) for leaf in statics)
    layout = Layout(frozen_structure, static_structure, settings, tuple(frozen_axes))
    structure = jax.tree.structure(part, is_leaf=_is_none)
    return layout, jax.tree.unflatten(structure, stacked), arrays


def leaf_axes(axes: Axes, tree: Any, name: str, of_axes: str) -> Any:
    """For each leaf of `tree` 0 if it carries an axis of seeds, None if all seeds share it."""

    def spread(axis: Any, part: Any) -> Any:
        if axis not in (None, "seed"):
            raise ValueError(f'`{of_axes}` must hold None or "seed", got {axis!r}.')
        return jax.tree.map(lambda _: 0 if axis == "seed" else None, part, is_leaf=_is_none)

    try:
        return jax.tree.map(spread, axes, tree, is_leaf=lambda a: a is None or isinstance(a, str))
    except (ValueError, TypeError) as error:
        if "must hold" in str(error):
            raise
        raise ValueError(
            f'`{of_axes}` must be None, "seed" or a tree of them that is a prefix of the '
            f"structure of `{name}`, got {of_axes}={axes!r}: {error}"
        ) from error


def of_seeds(
    arrays: list[Array], axes: SeedAxes, rows: int | Int[Array | np.ndarray, "*r"]
) -> list[Array]:
    """The arrays of the chosen seed or seeds; shared ones as they are."""
    return [a if axis is None else a[rows] for a, axis in zip(arrays, axes, strict=True)]


def over_seeds(function: Callable, axes: tuple, count: int, *, together: bool = True) -> Callable:
    """`function` mapped over seeds, all together or one at a time.

    A single seed is no `vmap` of one, which would compile to more.
    """
    if together and count > 1:
        return jax.vmap(function, in_axes=axes)

    def of_seed(arguments: tuple, i: int | Array) -> Any:
        chosen = (
            of_seeds(argument, tuple(axis), i)
            if isinstance(axis, list)
            else jax.tree.map(lambda leaf: leaf[i], argument)
            for argument, axis in zip(arguments, axes, strict=True)
        )
        return function(*chosen)

    if together:
        return lambda *a: jax.tree.map(lambda leaf: leaf[None], of_seed(a, 0))
    return lambda *a: jax.lax.map(lambda i: of_seed(a, i), jnp.arange(count))


def first_lane(plan: Plan, shared: Shared) -> tuple[Any, list[Array], list[Array]]:
    """The trained, the frozen and the data of the first seed."""
    trained = jax.tree.map(lambda leaf: leaf[0], shared.trained)
    frozen = of_seeds(shared.frozen, plan.layout.frozen_axes, 0)
    return trained, frozen, of_seeds(shared.data, plan.data_axes, 0)


def _is_none(leaf: Any) -> bool:
    return leaf is None


def _with_none(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=_is_none)
