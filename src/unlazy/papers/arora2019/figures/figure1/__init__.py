# SPDX-License-Identifier: Apache-2.0
"""Figure 1: true labels train faster than random ones, as the spectrum of H-infinity predicts.

For each data set, left: the training loss of a two-layer ReLU network for true, random and worst
labels, beside the prediction from the eigenvalues of H-infinity and the label projections on its
eigenvectors; right: those eigenvalues and projections.

Source: AR-80, arXiv:1901.08584 Figure 1. "Worst" labels are the eigenvector of the smallest
eigenvalue, scaled to the norm of the other labels; the paper leaves it at norm one, as the preset
`norm-one` does.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.arora2019.figures.figure1.claims import claims
from unlazy.papers.arora2019.figures.figure1.config import NAME, VERSION, Config, cells
from unlazy.papers.arora2019.figures.figure1.plot import plot
from unlazy.papers.arora2019.figures.figure1.run import run
from unlazy.papers.arora2019.figures.problems import DataSets, Network

EXPERIMENT = Experiment(
    name=NAME,
    title="Training speed of true, random and worst labels, with the curve theory predicts",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(DataSets(("digits",)), 60, Network(4096, "antisymmetric", 1.0, None, 30)),
            about="digits, n = 60, m = 4096, 30 steps",
            takes="15 seconds on two cores",
        ),
        "quick": Preset(
            Config(
                DataSets(("mnist", "cifar10"), fallback="digits"),
                200,
                Network(8000, "antisymmetric", 1.0, None, 1000),
            ),
            about="MNIST and CIFAR-10 (or digits), n = 200, m = 8000, a lazy start, 1000 steps",
            takes="under a minute on two cores",
        ),
        "lazy": Preset(
            Config(
                DataSets(("mnist", "cifar10")),
                10_000,
                Network(10_000, "antisymmetric", 1.0, 1e-3, 5000),
                off_prediction=("cifar10",),
            ),
            about="the paper's sizes, but a lazy initialisation: antisymmetric, kappa = 1",
            takes="about 3 minutes on one H200 GPU, days on two cores",
        ),
        "paper": Preset(
            Config(
                DataSets(("mnist", "cifar10")),
                10_000,
                Network(10_000, "gaussian", 1e-2, 1e-3, 5000),
                off_prediction=("mnist", "cifar10"),
            ),
            about="MNIST and CIFAR-10, n = m = 10000, the paper's initialisation, 5000 steps",
            takes="about 3 minutes on one H200 GPU, days on two cores",
        ),
        "norm-one": Preset(
            Config(
                DataSets(("mnist", "cifar10")),
                10_000,
                Network(10_000, "gaussian", 1e-2, 1e-3, 5000),
                off_prediction=("mnist", "cifar10"),
                worst_of_norm_one=True,
            ),
            about="the cells of the paper preset, but worst labels of norm one, as the paper says",
            takes="2 to 3 minutes on one H200 GPU, one with the cells of the paper preset",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    notes=lambda config: config.datasets.notes(),
)
