# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figures 1 and 2 compute."""

import jax
import numpy as np

from unlazy.experiments import CellResult, Progress
from unlazy.papers.allenzhu_li_liang2019 import samples
from unlazy.papers.allenzhu_li_liang2019.comparison.config import Point
from unlazy.papers.allenzhu_li_liang2019.learners import KERNELS, linear_models, network_learner
from unlazy.papers.grids.learner import Learner, Split, kernel_learner
from unlazy.papers.grids.linear import Linear
from unlazy.papers.grids.ridge import ridge_path
from unlazy.papers.grids.tuning import Table, merge, tune

RIDGES = 10 ** np.linspace(-10, 1, 45)  # in units of the mean eigenvalue


def run(config: Point, *, seed: int, progress: Progress) -> CellResult:
    # Whatever the user has set: the same cell, the same numbers.
    with jax.enable_x64(False):
        seeds = tuple(range(seed, seed + config.seeds))
        splits = [
            samples.draw(config.target, config.size.n, config.n_validation, config.n_test, seed=s)
            for s in seeds
        ]
        if config.method in KERNELS:
            models = linear_models(config.method, config.size.width, splits, seeds)
            trained = _trained(config, kernel_learner(models, splits), seeds, progress)
            table = merge([trained, _ridges(models, splits, seeds)])
        else:
            learner = network_learner(config.method, config.size.width, splits, seeds)
            table = _trained(config, learner, seeds, progress)
    energy = [float(np.mean(np.asarray(split.test.y, np.float64) ** 2)) for split in splits]
    return CellResult(table, {"energy": np.array(energy)})


def _trained(config: Point, learner: Learner, seeds: tuple[int, ...], progress: Progress) -> Table:
    def fit(rates, decays) -> Table:
        return learner.fit(
            rates,
            decays,
            seeds=seeds,
            epochs=config.size.epochs,
            batch_size=config.batch_size,
            progress=progress,
            key=jax.random.key(50),
        ).table()

    grid = config.grid
    table = tune(fit, grid.rates, grid.decays, extend=grid.extend)
    return {"solver": np.full(len(table["seed"]), "sgd")} | table


def _ridges(models: list[Linear], splits: list[Split], seeds: tuple[int, ...]) -> Table:
    """The rows of the exact solutions, with the columns of the trained lanes."""
    tables = []
    for model, split, seed in zip(models, splits, seeds, strict=True):
        omega, errors = ridge_path(model, tuple(np.asarray(part.y) for part in split), RIDGES)
        count = len(omega)
        tables.append(
            {
                "solver": np.full(count, "ridge"),
                "learning_rate": np.full(count, np.nan),
                "weight_decay": omega,
                "seed": np.full(count, seed),
                **dict(zip(("train", "validation", "test"), errors, strict=True)),
                "diverged": np.zeros(count, bool),
                "diverged_epoch": np.zeros(count, np.int64),
                "extension": np.zeros(count, np.int64),
            }
        )
    return merge(tables)
