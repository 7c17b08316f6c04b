# SPDX-License-Identifier: Apache-2.0
"""Figure 1: penalising the harmful directions of the NTK lets f_Q learn the sparse part.

The linear plus the quadratic term of a two-layer network on x_1 - 1 + (beta.x)^2, with the penalty
R3 on what f_L does beyond the top eigenvectors of the NTK: R3, training and test loss by step. All
strengths fit the training set; without a penalty f_L memorises the square that f_Q would learn.

Source: NB-50, arXiv:2206.03688 Figure 1. The paper's strengths, shift, rate and number of steps are
not in its text; these are ours, and at the preset "authors" those of the authors' code.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.nichani2022.figures.figure1.claims import claims
from unlazy.papers.nichani2022.figures.figure1.config import NAME, VERSION, Config, Descents, cells
from unlazy.papers.nichani2022.figures.figure1.plot import plot
from unlazy.papers.nichani2022.figures.figure1.run import run
from unlazy.papers.nichani2022.figures.trials import AuthorsProblem, Problem

EXPERIMENT = Experiment(
    name=NAME,
    title="Penalising the harmful directions of the NTK lets f_Q learn the sparse part",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(
                Descents(Problem(30, 164, 1000, n_test=500), (0.0, 10.0), trials=1, record_every=50)
            ),
            about="d = 30, n = 164, m = 1000, one trial, two strengths, 600 steps",
            takes="20 seconds on two cores",
        ),
        "quick": Preset(
            Config(Descents(Problem(30, 164, 1000))),
            about="d = 30, n = 164, m = 1000, 5 trials, 5 strengths, 600 steps",
            takes="under a minute on two cores",
        ),
        "paper": Preset(
            Config(
                Descents(Problem(100, 1000, 10_000), steps=2000),
                refuted=("level-without", "level-with"),  # .93 and .040
            ),
            about="d = 100, n = 1000, m = 10000, 5 trials, 5 strengths, 2000 steps",
            takes="half a minute on one H200 GPU, half a day on two cores",
        ),
        "authors": Preset(
            Config(
                Descents(
                    AuthorsProblem(100, 1000, 10_000),
                    strengths=(0.0, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1),
                    learning_rate=1.0,
                    steps=20_000,
                    noise=0.0,
                    record_every=200,
                ),
                # .68, .52 and .304: a strength of .1 works for longer than 20000 steps.
                refuted=("order", "linear", "level-with"),
            ),
            about="the settings of the authors' code: Gaussian inputs, a target of variance one, "
            "d = 100, n = 1000, m = 10000, 5 trials, 6 strengths, 20000 steps",
            takes="2 minutes on one H200 GPU",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
