# SPDX-License-Identifier: Apache-2.0
"""The cells of Figure 2, computed."""

import jax
import numpy as np

from unlazy.certificates import dot_product as dot_product_certificate
from unlazy.experiments import CellResult, Progress
from unlazy.papers.allenzhu_li2019.figures import samples
from unlazy.papers.allenzhu_li2019.figures.figure2.config import KERNELS, Coupled, Limits, Training
from unlazy.papers.allenzhu_li2019.figures.linear_models import (
    LIMITS,
    RIDGES,
    limit_model,
    linear_models,
    parts,
)
from unlazy.papers.shared.grids.coupled import coupled_ridge_path
from unlazy.papers.shared.grids.learner import (
    Learner,
    Split,
    kernel_learner,
    network_learner,
    tuned,
)
from unlazy.papers.shared.grids.ridge import as_lanes, path_rows, ridge_table
from unlazy.papers.shared.grids.tuning import Table, merge
from unlazy.papers.shared.settings import reproducible

Seeds = tuple[int, ...]

# In units of the kernel's mean eigenvalue. From a thousandth downwards errors rise at the widths of
# the presets, and those of infinite width fall by less than half a per cent.
COUPLED_RIDGES = 10 ** np.linspace(-3, 3, 25)


def run(config: Training | Coupled | Limits, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        seeds = tuple(range(seed, seed + config.seeds))
        splits = [samples.draw(config.task, seed=s) for s in seeds]
        if isinstance(config, Limits):
            return _limits(config, splits, seeds, progress)
        if isinstance(config, Coupled):
            return CellResult(_coupled(config, splits, seeds, progress))
        learn = _kernel if config.method in KERNELS else _network
        return CellResult(learn(config, splits, seeds, progress))


def _network(config: Training, splits: list[Split], seeds: Seeds, progress: Progress) -> Table:
    net, mode = _start_of(config)
    learner = network_learner(net, [samples.start(net, s) for s in seeds], splits, mode)
    return _trained(config, learner, seeds, progress)


def _start_of(config: Training | Coupled) -> tuple[samples.Network, str]:
    """The network of a cell, which knows how it starts, and the mode of training."""
    layers, mode = parts(config.method)
    return samples.network(layers, config.task, config.width, config.init), mode


def _kernel(config: Training, splits: list[Split], seeds: Seeds, progress: Progress) -> Table:
    net, mode = _start_of(config)
    models = linear_models(net, mode, splits, seeds, coupled=config.grid is not None)
    exact = as_lanes(ridge_table(models, splits, seeds, RIDGES), "ridge")
    if config.grid is None:
        return exact
    learner = kernel_learner(models, splits)
    return merge([_trained(config, learner, seeds, progress), exact])


def _trained(config: Training, learner: Learner, seeds: Seeds, progress: Progress) -> Table:
    assert config.grid is not None
    key = jax.random.key(61)
    options = {"epochs": config.epochs, "batch_size": config.batch_size, "progress": progress}
    return tuned(learner, config.grid, seeds=seeds, key=key, **options)


def _coupled(config: Coupled, splits: list[Split], seeds: Seeds, progress: Progress) -> Table:
    """One row per ridge and seed, with its residual; nan where it was not solved."""
    (net, _), tables = _start_of(config), []
    for done, (split, seed) in enumerate(zip(splits, seeds, strict=True)):
        progress(done, len(seeds))
        path = coupled_ridge_path(net, samples.start(net, seed), split, COUPLED_RIDGES)
        rows = path_rows(seed, path.weight_decay, path.errors)
        tables.append(rows | {"residual": path.residuals})
    return as_lanes(merge(tables), "coupled")


def _limits(config: Limits, splits: list[Split], seeds: Seeds, progress: Progress) -> CellResult:
    tables = []
    for done, name in enumerate(LIMITS):
        progress(done, len(LIMITS))
        models = [limit_model(name, split) for split in splits]
        tables.append(as_lanes(ridge_table(models, splits, seeds, RIDGES), name))
    sets = [config.task.target().parity]
    arrays = {
        # The part of the composite parity that dot-product kernels on the sample could express.
        "captured": [dot_product_certificate(s.train.x, sets=sets).captured[0] for s in splits],
        "energy": [np.mean(np.sum(np.asarray(s.test.y, float) ** 2, axis=1)) for s in splits],
    }
    return CellResult(merge(tables), {name: np.array(found) for name, found in arrays.items()})
