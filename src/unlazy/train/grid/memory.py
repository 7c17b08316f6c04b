# SPDX-License-Identifier: Apache-2.0
"""How many lanes fit a memory budget."""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import Literal
from jaxtyping import Array

from unlazy.train.grid.checking import check_scalar
from unlazy.train.grid.chunks import Tiling
from unlazy.train.grid.program import Plan, Shared, first_lane

# Bytes: more lanes at a time are evaluated no faster, and others may share the device.
EVALUATED_AT_ONCE = 2**33


class Need(NamedTuple):
    """Bytes, from above: nothing is assumed to be fused or freed."""

    lane: int
    common: int  # once for all lanes of a seed, since it depends on the data alone


def training_bytes(plan: Plan, shared: Shared) -> Need:
    """What training takes."""

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
    own = 2 * _tree_bytes(jax.eval_shape(state))
    if plan.own_batch:
        own += _batch_bytes(plan, data)
        need = _intermediates(
            lambda both, frozen: lane(both[0], frozen, both[1]), (trained, data), frozen
        )
    else:
        need = _intermediates(lane, trained, frozen, data)
    return need._replace(lane=need.lane + own)


def batch_is_small(plan: Plan, shared: Shared) -> bool:
    """Whether a batch is smaller than the parameters of one lane."""
    trained, _, data = jax.eval_shape(lambda: first_lane(plan, shared))
    return plan.batch_size is not None and _batch_bytes(plan, data) < _tree_bytes(trained)


def evaluation_bytes(plan: Plan, shared: Shared) -> int:
    """What one lane takes in evaluation, on the largest of the sets, from above."""
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


def _shapes(leaves: list[Array]) -> str:
    return ", ".join(str(leaf.shape) for leaf in leaves)


def copied_bytes(plan: Plan, shared: Shared) -> int:
    """Bytes of data that a chunk holds once more for each of its seeds.

    In training, what is the seed's own, that in the order of the epoch, and the same once more with
    its batches in front; in evaluation, what is the seed's own.
    """
    of_seed = _seed_bytes(shared.data, plan.data_axes)
    ordered = 2 * sum(of_seed) if plan.batch_size is not None else 0
    own_sets = sum(
        _seed_bytes(leaves, axes)[0]
        for (*_, axes), leaves in zip(plan.sets, shared.sets, strict=True)
    )
    return max(of_seed[0] + ordered, own_sets)


def _seed_bytes(leaves: list[Array], axes: tuple[int | None, ...]) -> tuple[int, int]:
    """Bytes that one seed has of its own, and bytes that it shares."""
    pairs = list(zip(leaves, axes, strict=True))
    own = sum(leaf.nbytes // leaf.shape[0] for leaf, axis in pairs if axis is not None)
    return own, sum(leaf.nbytes for leaf, axis in pairs if axis is None)


def lanes_that_fit(
    memory: int | float, need: Need, *, copies: int, seeds: int, settings: int, workers: int
) -> int:
    """How many lanes each of the workers can hold, with `copies` bytes of data for every seed.

    All settings of some seeds, or some settings of one, as they are cut into chunks.

    Raises:
        ValueError: not even one.
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
    """All lanes of a chunk, or as many of a seed's as fit, one at least, in parts of one size."""
    most = max(1, int(memory // bytes_each))
    if tiling.rows * tiling.columns <= most:
        return tiling.rows * tiling.columns
    return math.ceil(tiling.columns / math.ceil(tiling.columns / most))


def _intermediates(function: Any, own: Any, *others: Any) -> Need:
    """What a function of a lane's `own` arguments, and of others that lanes share, computes."""
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
    """Bytes of all values that an equation computes, those of programs in it once."""
    total = sum(_bytes(variable.aval) for variable in equation.outvars)
    for value in jax.tree.leaves(tuple(equation.params.values()), is_leaf=_is_program):
        if _is_program(value):
            total += sum(map(_written, getattr(value, "jaxpr", value).eqns))
    return total


def _is_program(value: Any) -> bool:
    return hasattr(value, "eqns") or hasattr(value, "jaxpr")


def _batch_bytes(plan: Plan, data: Any) -> int:
    return _tree_bytes(data) * (plan.batch_size or 0) // plan.samples


def _tree_bytes(tree: Any) -> int:
    return sum(_bytes(leaf) for leaf in jax.tree.leaves(tree))


def _bytes(shaped: Any) -> int:
    shape, dtype = getattr(shaped, "shape", ()), getattr(shaped, "dtype", None)
    # Random keys have a dtype without a size; they are few.
    size = (
        jnp.dtype(dtype).itemsize if dtype is not None and jnp.issubdtype(dtype, jnp.number) else 4
    )
    return math.prod(shape) * size
