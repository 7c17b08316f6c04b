# SPDX-License-Identifier: Apache-2.0
"""Samples against the width: with random signs, the width costs almost no samples.

Three-layer learners are trained by both variants on 2 sin(3 x_1) cos(2 x_2), at several widths and
numbers of samples, with the same number of steps. Left and middle: the generalisation gap against
the samples. Right: the samples at which it falls to a tenth of the zero predictor's loss, against
the width, beside the m^(3/2) that Theorem 3 allows the first variant. Both theorems are upper
bounds.

Source: LG-6, LG-22, LG-23, arXiv:1811.04918 Theorems 2 and 3. The paper has no such figure; the
target, the sizes and the level are ours.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.claims import claims
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.config import (
    NAME,
    VERSION,
    Config,
    cells,
)
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.plot import plot
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.run import run

EXPERIMENT = Experiment(
    name=NAME,
    title="Samples against the width, with and without random signs",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config((8, 16), (10, 40, 160), seeds=1, rounds=3),
            about="m = 8, 16, N = 10 to 160, 600 steps, 1 seed",
            takes="half a minute on two cores",
        ),
        "quick": Preset(
            Config((16, 64), (10, 20, 40, 80, 160), seeds=3, rounds=10),
            about="m = 16 and 64, N = 10 to 160, 2000 steps, 3 seeds",
            takes="half a minute on two cores",
        ),
        "paper": Preset(
            Config(
                (64, 128, 256),
                (10, 20, 40, 80, 160, 320),
                seeds=5,
                rounds=40,
                inner_steps=500,
            ),
            about="m = 64 to 256, N = 10 to 320, 20000 steps, 5 seeds",
            takes="12 minutes on two cores with --workers 2",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    on_processor=True,
)
