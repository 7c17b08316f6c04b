# SPDX-License-Identifier: Apache-2.0
"""Puts the chunks of a grid together into its result."""

from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from unlazy.train.grid.program import Plan, Shared
from unlazy.train.grid.result import GridResult
from unlazy.train.grid.runner import KeepRule, Trained


def assemble(
    plan: Plan,
    shared: Shared,
    chunks: list[Trained],
    *,
    rates: Float[np.ndarray, " l"],
    decays: Float[np.ndarray, " w"],
    seeds: Int[np.ndarray, " s"],
    times: list[int],
    keep: KeepRule,
) -> GridResult:
    """The result of all chunks."""
    settings, epochs = len(rates) * len(decays), shared.scale.shape[0]
    loss = np.full((epochs, len(seeds), settings), np.nan)
    values = np.full((len(plan.sets), len(times), len(seeds), settings), np.nan)
    diverged = np.zeros((len(seeds), settings), np.int64)
    trained: dict[tuple[int, int], Any] = {}
    for done in chunks:
        loss[done.chunk.place] = done.loss
        values[done.chunk.place] = done.values
        diverged[done.chunk.place] = done.diverged_epoch
        trained |= done.kept
    if keep == "best":
        trained = {place: trained[place] for place in _best_places(values[:, -1])}
    shape = (len(rates), len(decays), len(seeds))

    def by_lane(array: np.ndarray) -> np.ndarray:
        """From (..., seeds, settings) to (learning rates, weight decays, seeds, ...)."""
        array = np.moveaxis(array, (-1, -2), (0, 1)).reshape(settings, len(seeds), -1)
        return array.reshape(*shape, -1)

    return GridResult(
        learning_rates=rates,
        weight_decays=decays,
        seeds=seeds,
        epochs=epochs,
        times=np.asarray(times),
        loss=by_lane(loss),
        curves={name: by_lane(values[i]) for i, (name, *_) in enumerate(plan.sets)},
        diverged_epoch=by_lane(diverged)[..., 0],
        kept={
            column * len(seeds) + row: _whole(plan, shared, row, part)
            for (row, column), part in sorted(trained.items())
        },
    )


def _best_places(final: Float[np.ndarray, "sets s g"]) -> set[tuple[int, int]]:
    best = np.argmin(np.where(np.isfinite(final), final, np.inf), axis=2)
    return {
        (row, int(best[i, row]))
        for i, row in np.ndindex(*best.shape)
        if np.isfinite(final[i, row, best[i, row]])
    }


def _whole(plan: Plan, shared: Shared, row: int, trained: Any) -> Any:
    """The parameters of a lane as the user gave them, its trained part replaced."""
    axes = plan.layout.frozen_axes
    frozen = [a if axis is None else a[row] for a, axis in zip(shared.frozen, axes, strict=True)]
    return plan.layout.combine(jax.tree.map(jax.numpy.asarray, trained), frozen)
