# SPDX-License-Identifier: Apache-2.0
"""Theorem 1: the network itself, trained with all four penalties, and its population loss.

A two-layer sigmoid network on x_1 - 1 + (beta.x)^2, from the start on, by update (21): full-batch
descent with Gaussian noise in every step, on the log-cosh loss with R1 to R4 at the strengths of
the theory, beside the same without penalties. R1 and R2 come from unlabelled points; the strength
of R4 is epsilon over R4 of the movement that builds the square, as practical widths need.

Source: NB-38, NB-16 and NB-20, arXiv:2206.03688 Theorem 1. The theorem has no sizes and hides its
constants; the sizes, the rate and the number of steps are ours, and constants are taken as 1.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.nichani2022.figures.theorem1.claims import claims
from unlazy.papers.nichani2022.figures.theorem1.config import NAME, VERSION, Config, Descents, cells
from unlazy.papers.nichani2022.figures.theorem1.plot import plot
from unlazy.papers.nichani2022.figures.theorem1.run import run
from unlazy.papers.nichani2022.figures.trials import Problem

_SMALL = Problem(6, 30, 200, n_test=500, n_unlabelled=140)
_QUICK = Problem(10, 60, 400, n_unlabelled=220)
_LARGE = Problem(30, 164, 1000, n_unlabelled=620)

EXPERIMENT = Experiment(
    name=NAME,
    title="The network trained with all four penalties has a small population loss",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(Descents(_SMALL, trials=1, steps=400), refuted=("order", "gap")),
            about="d = 6, n = 30, m = 200, one trial, 400 steps",
            takes="20 seconds on two cores",
        ),
        "quick": Preset(
            Config(Descents(_QUICK, trials=3), refuted=("order", "gap")),
            about="d = 10, n = 60, m = 400, 3 trials, 2000 steps",
            takes="12 seconds on two cores",
        ),
        "paper": Preset(
            Config(Descents(_LARGE, steps=5000)),
            about="the theorem has no sizes; d = 30, n = 164, m = 1000, 5 trials, 5000 steps",
            takes="3 minutes on two cores",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
