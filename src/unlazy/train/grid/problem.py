# SPDX-License-Identifier: Apache-2.0
"""The user's loss, parameters and data as a plan to compile and the arrays that it reads."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

from unlazy.core.loss_calls import Loss, loss_program, needs_data
from unlazy.core.trained import Trained
from unlazy.train.grid.checking import check_arrays, check_start, representable, samples_of
from unlazy.train.grid.chunks import Tiling, tile
from unlazy.train.grid.layout import Axes, check_seed_axis, lay_out, leaf_axes
from unlazy.train.grid.memory import (
    EVALUATED_AT_ONCE,
    Need,
    batch_is_small,
    copied_bytes,
    evaluated_together,
    evaluation_bytes,
    lanes_that_fit,
    training_bytes,
)
from unlazy.train.grid.order import seed_keys
from unlazy.train.grid.program import Plan, Shared
from unlazy.train.grid.rules import UpdateRule


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
        """The plan, as yet for full batches, and the arrays."""
        check_start(self.params)
        layout, trained, frozen = lay_out(self.params, self.trained, self.params_axes, len(seeds))
        loss, held = loss_program(self.loss)
        metric, others = (loss, []) if self.metric is self.loss else loss_program(self.metric)
        held = [jnp.asarray(array) for array in (*held, *others)]
        axes = (*layout.frozen_axes, *(None for _ in held))
        layout = dataclasses.replace(layout, frozen_axes=axes)
        sets = {"train": self.data, **self.sets}
        flat = {name: self._flat(name, data, len(seeds)) for name, data in sets.items()}
        plan = Plan(
            loss=loss,
            metric=metric,
            rule=self.rule,
            layout=layout,
            structure=flat["train"][0],
            data_axes=flat["train"][1],
            sets=tuple((name, *flat[name][:2]) for name in sets),
            samples=flat["train"][3],
            batch_size=None,
        )
        dtype = jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(trained)))
        keys = seed_keys(jr.key(0) if key is None else key, jnp.asarray(seeds, jnp.uint32))
        rates = representable(rates, dtype, "learning_rates")
        decays = representable(decays, dtype, "weight_decays")
        lr, wd = (grid.ravel() for grid in np.meshgrid(rates, decays, indexing="ij"))
        arrays = [flat[name][2] for name in sets]
        return plan, Shared(
            trained=trained,
            frozen=[*frozen, *held],
            data=arrays[0],
            sets=arrays,
            lr=jnp.asarray(lr, dtype),
            wd=jnp.asarray(wd, dtype),
            scale=jnp.asarray(scale, dtype),
            keys=keys,
        )

    def _flat(self, name: str, data: Any, seeds: int) -> tuple[Any, tuple, list[Any], int]:
        """The structure, the axes and the arrays of a set, and its number of samples."""
        label = "data" if name == "train" else f"evaluate[{name!r}]"
        if data is None and self.data is None and not needs_data(self.loss):
            return jax.tree.structure(None), (), [], 1
        leaves, structure = jax.tree.flatten(data)
        check_arrays(leaves, label)
        axes = jax.tree.leaves(
            leaf_axes(self.data_axes, data, label, "data_axes"), is_leaf=lambda leaf: leaf is None
        )
        check_seed_axis(leaves, axes, seeds, label, "data_axes")
        samples = samples_of(leaves, axes, label)
        return structure, tuple(axes), [jnp.asarray(leaf) for leaf in leaves], samples


def fit_memory(
    plan: Plan, shared: Shared, memory: int | float, workers: int
) -> tuple[Plan, Tiling, Need]:
    """How the lanes are cut into chunks so that `workers` of them fit into `memory` bytes.

    And what one takes.
    """
    plan = plan._replace(own_batch=copies_pay() and batch_is_small(plan, shared))
    seeds, settings = shared.keys.shape[0], shared.lr.shape[0]
    workers = min(workers, seeds * settings)
    need, copies = training_bytes(plan, shared), copied_bytes(plan, shared)
    most = lanes_that_fit(
        memory, need, copies=copies, seeds=seeds, settings=settings, workers=workers
    )
    tiling = tile(seeds, settings, most=most, workers=workers)
    room = min(memory / workers, EVALUATED_AT_ONCE)
    together = evaluated_together(tiling, room, evaluation_bytes(plan, shared))
    return plan._replace(at_once=together), tiling, need


def copies_pay() -> bool:
    """Whether lanes with batches of their own are faster, as measured: on a GPU, not on cores."""
    return jax.default_backend() != "cpu"
