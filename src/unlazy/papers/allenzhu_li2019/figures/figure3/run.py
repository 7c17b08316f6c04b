# SPDX-License-Identifier: Apache-2.0
"""The cells of Figure 3, computed."""

import jax
import numpy as np

from unlazy.experiments import CellResult, Progress
from unlazy.papers.allenzhu_li2019.figures import samples
from unlazy.papers.allenzhu_li2019.figures.figure3.config import Sweep
from unlazy.papers.allenzhu_li2019.figures.linear_models import RIDGES, limit_model, parts
from unlazy.papers.shared.grids.learner import Learner, Split, network_learner
from unlazy.papers.shared.grids.ridge import ridge_table
from unlazy.papers.shared.grids.tuning import Table, best_values, tune
from unlazy.papers.shared.settings import reproducible

_KERNEL = "2layer(last)"  # of infinite width, the best of those of Figure 2


def run(config: Sweep, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        seeds = range(seed, seed + config.seeds)
        pairs = [(beta, s) for beta in config.betas for s in seeds]
        splits = [samples.draw(config.task, seed=s, beta=beta) for beta, s in pairs]
        layers, mode = parts(config.method)
        net = samples.network(layers, config.task, config.width)
        learner = network_learner(net, [samples.start(net, s) for _, s in pairs], splits, mode)
        table = _trained(config, learner, [s for _, s in pairs], progress)
        replicate = table.pop("seed")
        table |= {
            "beta": np.array([beta for beta, _ in pairs])[replicate],
            "seed": np.array([s for _, s in pairs])[replicate],
        }
        return CellResult(table, {"kernel": _kernel(config, splits)})


def _trained(config: Sweep, learner: Learner, seeds: list[int], progress: Progress) -> Table:
    """All lanes, by their replicate in place of the seed, which occurs once for every beta."""
    grid, key = config.grid, jax.random.key(66)
    options = {"epochs": config.epochs, "batch_size": config.batch_size, "progress": progress}

    def fit(rates, decays) -> Table:
        table = learner.fit(rates, decays, seeds=seeds, key=key, **options).table()
        return table | {"seed": np.arange(len(table["seed"])) % len(seeds)}

    return tune(fit, grid.rates, grid.decays, extend=grid.extend)


def _kernel(config: Sweep, splits: list[Split]) -> np.ndarray:
    """The best test errors of ridge regression, by beta and seed."""
    places = range(len(splits))
    models = [limit_model(_KERNEL, split) for split in splits]
    found = best_values(ridge_table(models, splits, places, RIDGES), places)
    return found.reshape(len(config.betas), config.seeds)
