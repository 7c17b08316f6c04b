# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figures 1 and 2 compute."""

import jax
import numpy as np

from unlazy.experiments import CellResult, Progress
from unlazy.papers.allenzhu_li_liang2019.figures import samples
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Point
from unlazy.papers.allenzhu_li_liang2019.figures.learners import (
    KERNELS,
    linear_models,
    network_learner,
)
from unlazy.papers.shared.grids.learner import kernel_learner, tuned
from unlazy.papers.shared.grids.ridge import as_lanes, ridge_table
from unlazy.papers.shared.grids.tuning import merge
from unlazy.papers.shared.settings import reproducible

RIDGES = 10 ** np.linspace(-10, 1, 45)  # in units of the mean eigenvalue


def run(config: Point, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        seeds = tuple(range(seed, seed + config.seeds))
        splits = [
            samples.draw(config.target, config.size.n, config.n_validation, config.n_test, seed=s)
            for s in seeds
        ]
        learned = (config.method, config.size.width, splits, seeds)
        models = linear_models(*learned) if config.method in KERNELS else None
        table = tuned(
            kernel_learner(models, splits) if models else network_learner(*learned),
            config.grid,
            seeds=seeds,
            epochs=config.size.epochs,
            batch_size=config.batch_size,
            progress=progress,
            key=jax.random.key(50),
        )
        if models:
            table = merge([table, as_lanes(ridge_table(models, splits, seeds, RIDGES), "ridge")])
    energy = [float(np.mean(np.asarray(split.test.y, np.float64) ** 2)) for split in splits]
    return CellResult(table, {"energy": np.array(energy)})
