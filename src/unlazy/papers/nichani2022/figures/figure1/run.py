# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 1 compute."""

import numpy as np

from unlazy.experiments import CellResult, Progress
from unlazy.papers.nichani2022.expansion_training import ExpansionSetting
from unlazy.papers.nichani2022.figures.figure1.config import Descents
from unlazy.papers.nichani2022.figures.trials import table, train
from unlazy.papers.shared.settings import reproducible


def run(config: Descents, *, seed: int, progress: Progress) -> CellResult:
    seeds = range(seed, seed + config.trials)
    with reproducible():
        runs = train(
            config.problem,
            seeds,
            [ExpansionSetting(lam3=strength) for strength in config.strengths],
            learning_rate=config.learning_rate,
            steps=config.steps,
            noise=config.noise,
            record_every=config.record_every,
            progress=progress,
        )
    axes = {"seed": np.array(seeds), "lam3": np.array(config.strengths), "step": runs.steps}
    return CellResult(table(axes, {"train": runs.train, "test": runs.test, "r3": runs.r3}))
