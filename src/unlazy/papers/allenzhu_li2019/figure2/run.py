# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 2 compute."""

import jax
import numpy as np

from unlazy.bounds import dot_product_certificate
from unlazy.experiments import CellResult, Progress
from unlazy.papers.allenzhu_li2019 import samples
from unlazy.papers.allenzhu_li2019.figure2.config import KERNELS, Grid, Limits, Training
from unlazy.papers.allenzhu_li2019.linear_models import (
    LIMITS,
    limit_model,
    linear_models,
    parts,
    ridge_table,
)
from unlazy.papers.grids.learner import Learner, Split, kernel_learner, network_learner
from unlazy.papers.grids.tuning import Table, merge, tune


def run(config: Training | Limits, *, seed: int, progress: Progress) -> CellResult:
    # Whatever the user has set: the same cell, the same numbers.
    with jax.enable_x64(False):
        seeds = tuple(range(seed, seed + config.seeds))
        splits = [samples.draw(config.task, seed=s) for s in seeds]
        if isinstance(config, Limits):
            return _limits(config, splits, seeds, progress)
        if config.method not in KERNELS:
            assert config.grid is not None
            learner = _network(config, splits, seeds)
            return CellResult(_trained(config, config.grid, learner, seeds, progress))
        return CellResult(_kernel(config, splits, seeds, progress))


def _network(config: Training, splits: list[Split], seeds: tuple[int, ...]) -> Learner:
    layers, mode = parts(config.method)
    net = samples.network(layers, config.task, config.width)
    return network_learner(net, [samples.start(net, s) for s in seeds], splits, mode)


def _kernel(
    config: Training, splits: list[Split], seeds: tuple[int, ...], progress: Progress
) -> Table:
    models = linear_models(
        config.method, config.task, config.width, splits, seeds, coupled=config.grid is not None
    )
    exact = _as_lanes(ridge_table(models, splits, seeds), "ridge")
    if config.grid is None:
        return exact
    learner = kernel_learner(models, splits)
    return merge([_trained(config, config.grid, learner, seeds, progress), exact])


def _trained(
    config: Training, grid: Grid, learner: Learner, seeds: tuple[int, ...], progress: Progress
) -> Table:
    def fit(rates, decays) -> Table:
        return learner.fit(
            rates,
            decays,
            seeds=seeds,
            epochs=config.epochs,
            batch_size=config.batch_size,
            progress=progress,
            key=jax.random.key(61),
        ).table()

    table = tune(fit, grid.rates, grid.decays, extend=grid.extend)
    return {"solver": np.full(len(table["seed"]), "sgd")} | table


def _limits(
    config: Limits, splits: list[Split], seeds: tuple[int, ...], progress: Progress
) -> CellResult:
    tables = []
    for done, name in enumerate(LIMITS):
        progress(done, len(LIMITS))
        models = [limit_model(name, split) for split in splits]
        tables.append(_as_lanes(ridge_table(models, splits, seeds), name))
    target = config.task.target()
    arrays = {
        # The part of the composite parity that dot-product kernels on the sample could express.
        "captured": [
            dot_product_certificate(split.train.x, sets=[target.parity]).captured[0]
            for split in splits
        ],
        "energy": [np.mean(np.sum(np.asarray(s.test.y, float) ** 2, axis=1)) for s in splits],
    }
    return CellResult(merge(tables), {name: np.array(found) for name, found in arrays.items()})


def _as_lanes(table: Table, solver: str) -> Table:
    """The rows of exact solutions, with the columns of trained lanes."""
    count = len(table["seed"])
    return {
        "solver": np.full(count, solver),
        "learning_rate": np.full(count, np.nan),
        **table,
        "diverged": np.zeros(count, bool),
        "diverged_epoch": np.zeros(count, np.int64),
        "extension": np.zeros(count, np.int64),
    }
