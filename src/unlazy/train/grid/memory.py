# SPDX-License-Identifier: Apache-2.0
"""How the lanes of a grid are cut into chunks of one shape that fit a memory budget.

Bytes are counted from above, from the traced program: nothing is assumed to be fused or freed.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jax.sharding import Mesh
from jaxtyping import Array, Int

from unlazy.core.checks import check_count
from unlazy.train.grid.checks import check_scalar
from unlazy.train.grid.problem import Plan, SeedAxes, Shared, first_lane

# Bytes: more lanes at a time are evaluated no faster, and others may share the device.
_EVALUATED_AT_ONCE = 2**33


@dataclass(frozen=True)
class Chunk:
    """Some seeds times some settings; past the end the last one is repeated to fill the shape."""

    rows: Int[np.ndarray, " r"]  # which seeds
    columns: Int[np.ndarray, " g"]  # which settings
    seeds: int  # how many rows count
    settings: int  # how many columns count

    @property
    def lanes(self) -> int:
        """How many of its lanes count."""
        return self.seeds * self.settings

    @property
    def place(self) -> Any:
        """The index of its lanes in an array over the whole grid, seeds and settings last."""
        i, j = int(self.rows[0]), int(self.columns[0])
        return np.s_[..., i : i + self.seeds, j : j + self.settings]

    def parts(self, values: Any) -> Iterator[tuple["Chunk", Any]]:
        """The chunk with its values, as of a `Wave` of one."""
        yield self, values

    def valid(self, array: Any) -> np.ndarray:
        """The entries that count, of an array over its seeds and settings."""
        return np.asarray(array)[..., : self.seeds, : self.settings]


@dataclass(frozen=True)
class Tiling:
    """The grid of `seeds` by `settings` in tiles of `rows` by `columns`."""

    seeds: int
    settings: int
    rows: int
    columns: int

    def __iter__(self) -> Iterator[Chunk]:
        for i in range(0, self.seeds, self.rows):
            for j in range(0, self.settings, self.columns):
                yield Chunk(
                    np.minimum(np.arange(i, i + self.rows), self.seeds - 1).astype(np.int32),
                    np.minimum(np.arange(j, j + self.columns), self.settings - 1).astype(np.int32),
                    min(self.rows, self.seeds - i),
                    min(self.columns, self.settings - j),
                )


class Need(NamedTuple):
    """The bytes that training takes."""

    lane: int
    common: int  # once for all lanes of a seed, since it depends on the data alone


def fit_memory(
    plan: Plan, shared: Shared, memory: int | float, workers: int
) -> tuple[Plan, Tiling, Need]:
    """Chunks of which `workers` fit into `memory` bytes, the plan for them, and a lane's need.

    Memory and workers are those of each device.
    """
    plan = plan._replace(own_batch=copies_pay() and batch_is_small(plan, shared))
    seeds, settings = shared.keys.shape[0], shared.lr.shape[0]
    chunks, workers = (min(count, seeds * settings) for count in (plan.devices * workers, workers))
    need, copies = training_bytes(plan, shared), copied_bytes(plan, shared)
    most = lanes_that_fit(
        memory, need, copies=copies, seeds=seeds, settings=settings, workers=workers
    )
    tiling = tile(seeds, settings, most=most, workers=chunks)
    room = min(memory / workers, _EVALUATED_AT_ONCE)
    together = evaluated_together(tiling, room, evaluation_bytes(plan, shared))
    return plan._replace(at_once=together), tiling, need


def workers_of(workers: int | None, mesh: Mesh | None) -> int:
    """The number given, or the default; several threads would mix up the programs of a mesh."""
    if workers is None:
        return default_workers() if mesh is None else 1
    check_count(workers, "workers")
    if mesh is not None and workers > 1:
        raise ValueError(
            f"`workers` must be None or 1 where `mesh` is given, got workers={workers}: each of "
            "its devices trains one chunk of lanes at a time."
        )
    return workers


def default_workers() -> int:
    """The number of cores that this process may use, or one where there is an accelerator."""
    if jax.devices()[0].platform != "cpu":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def copies_pay() -> bool:
    """Whether lanes with batches of their own are faster, as measured: on a GPU, not on cores."""
    return jax.default_backend() != "cpu"


def batch_is_small(plan: Plan, shared: Shared) -> bool:
    """Whether a batch is smaller than the parameters of one lane."""
    trained, _, data = jax.eval_shape(lambda: first_lane(plan, shared))
    return plan.batch_size is not None and _batch_bytes(plan, data) < _bytes(trained)


def tile(seeds: int, settings: int, *, most: int, workers: int) -> Tiling:
    """Tiles of at most `most` lanes, balanced, their number a multiple of `workers` if it can be.

    Settings of one seed share its mini-batches, so a tile takes a second seed only when it has
    room for all settings of the first.
    """
    most = max(1, min(most, math.ceil(seeds * settings / workers)))
    rows = math.ceil(seeds / math.ceil(seeds / max(1, most // settings)))
    down = math.ceil(seeds / rows)
    fewest = math.ceil(settings / max(1, most // rows))
    choices = range(fewest, min(settings, fewest + workers) + 1)
    across = next((count for count in choices if down * count % workers == 0), fewest)
    return Tiling(seeds, settings, rows, math.ceil(settings / across))


def lanes_that_fit(
    memory: int | float, need: Need, *, copies: int, seeds: int, settings: int, workers: int
) -> int:
    """How many lanes each worker can hold, with `copies` bytes of data for every seed.

    They are all settings of some seeds, or some settings of one seed, as chunks are cut.

    Raises:
        ValueError: not even one lane fits.
    """
    one, room = need.lane + need.common, memory / workers
    least = workers * (one + copies)
    if memory < least:
        data = f", and {copies} for its copies of the data" if copies else ""
        raise ValueError(
            f"`memory` must be at least {least} bytes, what one lane takes for each of "
            f"{workers} workers ({one} bytes{data}), got memory={memory:.0f}. Give more, or "
            "take fewer workers or smaller batches."
        )
    of_seed = need.common + copies
    whole = int(room // (of_seed + settings * need.lane))
    if whole:
        return min(seeds, whole) * settings
    return max(1, int((room - of_seed) // need.lane))  # one, whatever the rounding


def evaluated_together(tiling: Tiling, memory: int | float, bytes_each: int) -> int:
    """All lanes of a chunk, or as many of one seed as fit, at least one, in parts of one size."""
    most = max(1, int(memory // bytes_each))
    if tiling.rows * tiling.columns <= most:
        return tiling.rows * tiling.columns
    return math.ceil(tiling.columns / math.ceil(tiling.columns / most))


def training_bytes(plan: Plan, shared: Shared) -> Need:
    """The bytes that training takes."""

    def lane(trained: Any, frozen: list[Array], leaves: list[Array]) -> Any:
        rows = [leaf[: plan.batch_size] for leaf in leaves]
        batch = jax.tree.unflatten(plan.structure, rows)

        def objective(trained: Any) -> Array:
            value = plan.loss_of(trained, frozen, batch)
            check_scalar(value, "loss")  # here the loss is called for the first time
            return value

        return jax.value_and_grad(objective)(trained)

    def state() -> Any:
        trained = first_lane(plan, shared)[0]
        return trained, plan.rule.init(trained, shared.lr[0], shared.wd[0])

    trained, frozen, data = jax.eval_shape(lambda: first_lane(plan, shared))
    # Twice the state: a loop holds what it reads and what it writes.
    own = 2 * _bytes(jax.eval_shape(state))
    if plan.own_batch:
        own += _batch_bytes(plan, data)
        need = _intermediates(
            lambda both, frozen: lane(both[0], frozen, both[1]), (trained, data), frozen
        )
    else:
        need = _intermediates(lane, trained, frozen, data)
    return need._replace(lane=need.lane + own)


def evaluation_bytes(plan: Plan, shared: Shared) -> int:
    """The bytes that one lane takes in evaluation, on the largest of the sets."""
    trained, frozen, _ = jax.eval_shape(lambda: first_lane(plan, shared))
    largest = 1
    for (name, structure, axes), leaves in zip(plan.sets, shared.sets, strict=True):
        rows = [
            leaf if axis is None else jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype)
            for leaf, axis in zip(leaves, axes, strict=True)
        ]

        def lane(trained: Any, frozen: list[Array], leaves: Any, structure=structure) -> Array:
            data = jax.tree.unflatten(structure, leaves)
            value = plan.metric_of(trained, frozen, data)
            check_scalar(value, "loss" if plan.metric is plan.loss else "metric")
            return value

        try:
            largest = max(largest, sum(_intermediates(lane, trained, frozen, rows)))
        except Exception as error:
            if name == "train":
                raise
            raise ValueError(
                f"`evaluate[{name!r}]` must have the structure of `data`, {plan.structure} of "
                f"shapes {_shapes(shared.data)}, or one that `metric` takes, got {structure} of "
                f"shapes {_shapes(leaves)}: {error}"
            ) from error
    return largest


def copied_bytes(plan: Plan, shared: Shared) -> int:
    """The bytes of data that a chunk copies for each of its seeds.

    Training copies the seed's own arrays, all data in the order of the epoch, and these once more
    with their batches in front; evaluation copies the seed's own arrays.
    """

    def own(leaves: list[Array], axes: SeedAxes) -> int:
        pairs = zip(leaves, axes, strict=True)
        return sum(leaf.nbytes // leaf.shape[0] for leaf, axis in pairs if axis is not None)

    of_seed = own(shared.data, plan.data_axes)
    pairs = zip(shared.data, plan.data_axes, strict=True)
    common = sum(leaf.nbytes for leaf, axis in pairs if axis is None)
    ordered = 2 * (of_seed + common) if plan.batch_size is not None else 0
    own_sets = (own(x, axes) for (*_, axes), x in zip(plan.sets, shared.sets, strict=True))
    return max(of_seed + ordered, sum(own_sets))


def _shapes(leaves: list[Array]) -> str:
    return ", ".join(str(leaf.shape) for leaf in leaves)


def _intermediates(function: Any, own: Any, *others: Any) -> Need:
    """The bytes that a function computes from a lane's `own` arguments and from shared others."""
    jaxpr = jax.make_jaxpr(function)(own, *others).jaxpr
    of_lane = set(jaxpr.invars[: len(jax.tree.leaves(own))])
    lane = common = 0
    for equation in jaxpr.eqns:
        if of_lane.isdisjoint(atom for atom in equation.invars if not isinstance(atom, Literal)):
            common += _written(equation)
        else:
            lane += _written(equation)
            of_lane.update(equation.outvars)
    return Need(lane, common)


def _written(equation: Any) -> int:
    """Bytes of all values that an equation computes, counting inner programs once."""
    total = _bytes([variable.aval for variable in equation.outvars])
    for value in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program):
        if _is_program(value):
            total += sum(map(_written, getattr(value, "jaxpr", value).eqns))
    return total


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _batch_bytes(plan: Plan, data: Any) -> int:
    return _bytes(data) * (plan.batch_size or 0) // plan.samples


def _bytes(tree: Any) -> int:
    total = 0
    for leaf in jax.tree.leaves(tree):
        shape, dtype = getattr(leaf, "shape", ()), getattr(leaf, "dtype", None)
        # Random keys have a dtype without a size; they are few.
        sized = dtype is not None and jnp.issubdtype(dtype, jnp.number)
        total += math.prod(shape) * (jnp.dtype(dtype).itemsize if sized else 4)
    return total
