# SPDX-License-Identifier: Apache-2.0
"""How lanes are evaluated, and what the chunks of a grid report, put together into its result."""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from unlazy.core.convolutions import looped
from unlazy.train.grid.memory import Chunk
from unlazy.train.grid.problem import Plan, Shared, of_seeds, over_seeds
from unlazy.train.grid.result import GridResult, Preferred, costs

KeepRule = Literal["best", "all", "none"]


class Evaluation(NamedTuple):
    """The metric of every lane on every set, and which lanes are sound."""

    values: list[Float[Array, "r g"]]
    sound: Bool[Array, "r g"]


def evaluate(plan: Plan, trained: Any, shared: Shared, rows: Int[Array, " r"]) -> Evaluation:
    """Evaluate all sets, `plan.at_once` lanes at a time.

    A sound lane has finite parameters, and a finite loss on the training set if the loss is the
    metric: another metric may be infinite for reasons of its own.
    """
    frozen = of_seeds(shared.frozen, plan.layout.frozen_axes, rows)
    settings = jax.tree.leaves(trained)[0].shape[1]
    values = []
    for (_, structure, axes), leaves in zip(plan.sets, shared.sets, strict=True):

        def of_seed(trained, frozen, leaves, structure=structure):
            data = jax.tree.unflatten(structure, leaves)

            def lane(trained: Any) -> Array:
                return plan.metric_of(trained, frozen, data)

            if plan.at_once >= settings:
                return jax.vmap(lane)(trained)
            return jax.lax.map(looped(lane), trained, batch_size=plan.at_once)

        mapping = (0, list(plan.layout.frozen_axes), list(axes))
        together = plan.at_once >= len(rows) * settings
        mapped = over_seeds(of_seed, mapping, len(rows), together=together)
        values.append(mapped(trained, frozen, of_seeds(leaves, axes, rows)))
    sound = jax.vmap(jax.vmap(_is_finite))(trained)
    if plan.metric is plan.loss:
        sound &= jnp.isfinite(values[0])
    return Evaluation(values, sound)


def _is_finite(trained: Any) -> Bool[Array, ""]:
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(trained)]
    return jnp.all(jnp.stack(finite))


class Record:
    """Losses, metrics and parameters over the whole grid; threads fill in different chunks."""

    def __init__(
        self,
        plan: Plan,
        shared: Shared,
        times: list[int],
        keep: KeepRule,
        preferred: Preferred = "smallest",
    ) -> None:
        self.plan, self.shared, self.times, self.keep = plan, shared, times, keep
        self.preferred: Preferred = preferred
        lanes = shared.keys.shape[0], shared.lr.shape[0]
        self.loss = np.full((*shared.scale.shape, *lanes), np.nan)
        self.values = np.full((len(plan.sets), len(times), *lanes), np.nan)
        self.sound = np.zeros((len(times), *lanes), bool)
        self.diverged_epoch = np.full(lanes, np.nan)
        self.kept: dict[tuple[int, int], Any] = {}  # trained parameters by (seed, setting)

    def evaluated(self, chunk: Chunk, epoch: int, values: list[Any], sound: Any) -> None:
        """Note the metrics of a chunk after `epoch` epochs, and which of its lanes are sound."""
        time = self.times.index(epoch)
        self.values[:, time][chunk.place] = [chunk.valid(value) for value in values]
        self.sound[time][chunk.place] = chunk.valid(sound)

    def trained(self, chunk: Chunk, loss: Any, trained: Any) -> None:
        """Note the losses of a chunk at its end, which of its lanes diverged, and the parameters.

        A lane that diverged has nan for a loss and infinite metrics from there on: whether it was
        trained further depends on the other lanes, and on the clock.
        """
        loss, times = chunk.valid(loss).astype(np.float64), np.asarray(self.times)
        epoch = diverged_epoch(loss, self.sound[chunk.place], times)
        self.diverged_epoch[chunk.place] = epoch
        self.loss[chunk.place] = np.where(_ended(epoch, np.arange(len(loss))), np.nan, loss)
        worst = np.inf if self.preferred == "smallest" else -np.inf
        values = np.where(_ended(epoch, times), worst, self.values[chunk.place])
        self.values[chunk.place] = values
        if self.keep == "none":
            return
        if self.keep == "all":
            chosen = set(np.ndindex(*epoch.shape))
        else:
            chosen = _best(values[:, -1], self.preferred)
        on_host = jax.tree.map(np.asarray, trained)
        for i, j in chosen:
            place = int(chunk.rows[i]), int(chunk.columns[j])
            self.kept[place] = jax.tree.map(lambda leaf, i=i, j=j: leaf[i, j].copy(), on_host)

    def result(
        self,
        rates: Float[np.ndarray, " l"],
        decays: Float[np.ndarray, " w"],
        seeds: Int[np.ndarray, " s"],
    ) -> GridResult:
        """The result of all chunks."""
        if self.keep == "best":
            best = _best(self.values[:, -1], self.preferred)
            self.kept = {place: self.kept[place] for place in best}

        def by_lane(array: np.ndarray) -> np.ndarray:
            """From (..., seeds, settings) to (learning rates, weight decays, seeds, ...)."""
            array = np.moveaxis(array, (-1, -2), (0, 1))
            return array.reshape(len(rates), len(decays), len(seeds), *array.shape[2:])

        return GridResult(
            learning_rates=rates,
            weight_decays=decays,
            seeds=seeds,
            epochs=len(self.loss),
            times=np.asarray(self.times),
            loss=by_lane(self.loss),
            curves={name: by_lane(self.values[i]) for i, (name, *_) in enumerate(self.plan.sets)},
            diverged_epoch=by_lane(self.diverged_epoch),
            kept={
                column * len(seeds) + row: self._whole(row, part)
                for (row, column), part in sorted(self.kept.items())
            },
            preferred=self.preferred,
        )

    def _whole(self, row: int, trained: Any) -> Any:
        """The parameters of a lane as the user gave them, its trained part replaced."""
        layout = self.plan.layout
        frozen = of_seeds(self.shared.frozen, layout.frozen_axes, row)
        return layout.combine(jax.tree.map(jnp.asarray, trained), frozen)


def diverged_epoch(
    loss: Float[np.ndarray, "epochs r g"],
    sound: Bool[np.ndarray, "t r g"],
    times: Int[np.ndarray, " t"],
) -> Float[np.ndarray, "r g"]:
    """The first epoch, from 1 on, with a loss that is not finite or an unsound lane, or nan."""
    never = len(loss) + 1

    def first_bad(good: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        return np.where(good.all(axis=0), never, numbers[np.argmin(good, axis=0)])

    epoch = np.minimum(first_bad(np.isfinite(loss), np.arange(1, never)), first_bad(sound, times))
    return np.where(epoch == never, np.nan, epoch)


def _ended(epoch: Float[np.ndarray, "r g"], times: Int[np.ndarray, " t"]) -> np.ndarray:
    return times[:, None, None] >= epoch  # never where it is nan


def _best(final: Float[np.ndarray, "sets s g"], preferred: Preferred) -> set[tuple[int, int]]:
    """The best setting of each seed by each set, where any is finite."""
    best = np.argmin(costs(final, preferred), axis=2)
    return {
        (row, int(best[i, row]))
        for i, row in np.ndindex(*best.shape)
        if np.isfinite(final[i, row, best[i, row]])
    }
