# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 1 compute."""

import jax.random as jr
import numpy as np

from unlazy.experiments import CellResult, Progress
from unlazy.papers.nichani2022.expansion_training import (
    ExpansionRuns,
    ExpansionSetting,
    fit_expansion,
)
from unlazy.papers.nichani2022.figures.figure1.config import Descents
from unlazy.papers.nichani2022.figures.trials import draw
from unlazy.papers.shared.settings import reproducible

COLUMNS = ("train", "test", "r3")


def run(config: Descents, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        drawn = draw(config.problem, range(seed, seed + config.trials))
        runs = fit_expansion(
            config.problem.net,
            drawn.params,
            drawn.train,
            settings=[ExpansionSetting(lam3=strength) for strength in config.strengths],
            rank=config.problem.rank,
            learning_rate=config.learning_rate,
            steps=config.steps,
            noise=config.noise,
            test=drawn.test,
            record_every=config.record_every,
            precision="highest",
            progress=progress,
            key=jr.fold_in(jr.key(seed), 1),
        )
    return CellResult(_table(config, seed, runs))


def _table(config: Descents, seed: int, runs: ExpansionRuns) -> dict[str, np.ndarray]:
    """A row for every trial, strength and recorded step."""
    trials = np.arange(seed, seed + config.trials)
    axes = np.meshgrid(trials, np.array(config.strengths), runs.steps, indexing="ij")
    table = {name: axis.ravel() for name, axis in zip(("seed", "lam3", "step"), axes, strict=True)}
    return table | {name: getattr(runs, name).ravel().astype(np.float64) for name in COLUMNS}
