# SPDX-License-Identifier: Apache-2.0
"""Figure 2: a standard network learns a dense quadratic plus a sparse cubic from d^2 samples.

Left: the test loss of a two-layer ReLU network under gradient descent, and of ridge regression with
the NTK of the same network at infinite width, against the number of samples. Right: the samples
that bring either to a test loss of 0.1, against the dimension. Of two ridges the kernel gets the
better one by the test set itself. Medians over the seeds: now and then a network is thrown out by
its first steps, since the learning rate is above the limit of its linear model.

Source: NB-52, arXiv:2206.03688 Figure 2. The paper's dimensions, width and rates are not in its
text, and it has no kernel baseline; these are ours. The preset "authors" has the settings of the
authors' code, and no kernel.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.nichani2022.figures.figure2.claims import claims
from unlazy.papers.nichani2022.figures.figure2.config import (
    NAME,
    VERSION,
    AuthorsSweep,
    Config,
    Sweep,
    cells,
)
from unlazy.papers.nichani2022.figures.figure2.plot import plot
from unlazy.papers.nichani2022.figures.figure2.run import run

EXPERIMENT = Experiment(
    name=NAME,
    title="A standard network learns dense quadratic plus sparse cubic from about d^2 samples",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(tuple(Sweep(d, 1, (1.5, 4.0), (1.0, 4.0), steps=2000) for d in (5, 8))),
            about="d = 5 and 8, two sizes, one seed",
            takes="40 seconds on two cores",
        ),
        "quick": Preset(
            Config(tuple(Sweep(d, 3) for d in (5, 8, 10, 12, 16))),
            about="d = 5, 8, 10, 12, 16, n = 1.5 to 4 d^2, the kernel to n = 4100, 3 seeds",
            takes="about 3 minutes on two cores",
        ),
        "paper": Preset(
            Config(tuple(Sweep(d, 5, kernel_most=28_000) for d in (5, 8, 12, 16, 20, 24, 32, 40))),
            about="d = 5 to 40, n = 1.5 to 4 d^2, the kernel to n = 28000, 5 seeds",
            takes="2 to 3 minutes on one H200 GPU, an hour or two on two cores",
        ),
        "authors": Preset(
            Config(
                tuple(AuthorsSweep(d) for d in (10, 20, 30, 40, 50, 100)),
                refuted=("exponent",),  # 1.31 and 1.35 in two runs
            ),
            about="the settings of the authors' code: Gaussian inputs, d = 10 to 100, m = 100, "
            "n = d^2 to 20 d^2, 30000 steps; 3 seeds",
            takes="2 minutes on one H200 GPU",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
