# SPDX-License-Identifier: Apache-2.0
"""Figure 2: the complexity measure rises with the share of random labels, as the test error does.

For each data set, left: the measure sqrt(2 y^T H^-1 y / n) of the training labels against the share
of labels drawn at random, on training and test set alike; right: test error and test l1 loss of the
infinitely wide network, which needs no training, and of a trained one.

Source: AR-81, arXiv:1901.08584 Figure 2. The paper does not state its fractions; these are ours. It
trains until convergence: the preset `converged` does so, at the largest stable learning rate and a
fifth of the paper's samples. Descent needs about 1/(eta lambda_0) steps, and the stable eta falls
like 1/n.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.arora2019.figures.figure2.claims import claims
from unlazy.papers.arora2019.figures.figure2.config import NAME, VERSION, Config, cells
from unlazy.papers.arora2019.figures.figure2.plot import plot
from unlazy.papers.arora2019.figures.figure2.run import run
from unlazy.papers.arora2019.figures.problems import ConvergedNetwork, DataSets, Network

_BOTH = ("mnist", "cifar10")

EXPERIMENT = Experiment(
    name=NAME,
    title="The complexity measure against the test error, as labels are made random",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(DataSets(("digits",)), 150, 60, Network(256, "gaussian", 0.01, None, 200)),
            about="digits, n = 150, m = 256, 200 steps",
            takes="20 seconds on two cores",
        ),
        "quick": Preset(
            Config(
                DataSets(_BOTH, fallback="digits"),
                500,
                1000,
                Network(1000, "gaussian", 0.01, None, 2500),
            ),
            about="MNIST and CIFAR-10 (or digits), n = 500, m = 1000, 2500 steps",
            takes="about a minute and a half on two cores",
        ),
        "paper": Preset(
            Config(DataSets(_BOTH), 10_000, 2000, Network(10_000, "gaussian", 0.01, 1e-3, 5000)),
            about="MNIST and CIFAR-10, n = m = 10000, 2000 test images, 5000 steps",
            takes="about 4 minutes on one H200 GPU, days on two cores",
        ),
        "converged": Preset(
            Config(
                DataSets(_BOTH),
                2000,
                2000,
                ConvergedNetwork(10_000, "gaussian", 0.01, None, 200_000, 0.01, 0.95),
            ),
            about="n = 2000, m = 10000, trained until a mean square of 1%, at 1.9/lambda_max",
            takes="5 minutes on one H200 GPU with --jobs 5",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    notes=lambda config: config.datasets.notes(),
)
