# SPDX-License-Identifier: Apache-2.0
r"""Theorem 1: the risk of SGD against alpha, against the samples and against OPT.

Algorithm 1 on the hard class, one fresh sample per step, with the exact risk over the cube. Left:
the risk along the steps, with $k\alpha^4$ dotted, and layers trained one after the other. Middle:
the mean risk over the second half of the steps against alpha. Right: with random signs added to the
labels, the risk against the target itself.

Source: RN-28 and RN-31, arXiv:1905.10337 Theorem 1 and section 2.1. The paper has no figure of
these.
"""

from typing import Any

from unlazy.experiments import Experiment, Preset
from unlazy.papers.allenzhu_li2019.figures.theorem1.claims import claims
from unlazy.papers.allenzhu_li2019.figures.theorem1.config import (
    NAME,
    VERSION,
    Config,
    Training,
    cells,
)
from unlazy.papers.allenzhu_li2019.figures.theorem1.plot import plot
from unlazy.papers.allenzhu_li2019.figures.theorem1.run import run


def _config(
    alphas: tuple[float, ...], noises: tuple[float, ...], alpha: float, steps: int, **sizes: Any
) -> Config:
    return Config(
        tuple(Training(one, steps, **sizes) for one in alphas),
        tuple(Training(alpha, steps, noise=noise, **sizes) for noise in noises),
        Training(alpha, steps, layer_wise=True, **sizes),
        # The second layer learns the composite from the outputs of a first one that is fixed.
        refuted=("RN-31/layer-wise",),
    )


EXPERIMENT = Experiment(
    name=NAME,
    title="Theorem 1: the risk of SGD against alpha, samples and OPT",
    version=VERSION,
    presets={
        "smoke": Preset(
            _config((0.6, 0.45), (0.5,), 0.6, 1000, inputs=5, width=60, rows=20),
            about="d = 5, m = 60, 1000 steps, four trainings",
            takes="15 seconds on two cores",
        ),
        "quick": Preset(
            _config((0.6, 0.45, 0.3, 0.2, 0.15), (0.1, 0.3, 0.6), 0.3, 20_000),
            about="d = 9, k = 2, m = 300, 20000 steps, nine trainings",
            takes="half a minute on one core",
        ),
        "paper": Preset(
            _config(
                (0.6, 0.45, 0.3, 0.2, 0.15),
                (0.03, 0.1, 0.3, 0.6),
                0.3,
                100_000,
                inputs=12,
                outputs=3,
                width=500,
            ),
            about="d = 12, k = 3, m = 500, 100000 steps, ten trainings",
            takes="under a minute on two cores",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    on_processor=True,
)
