# SPDX-License-Identifier: Apache-2.0
"""Figure 4: SGD does not find the small solutions of a parity that exist.

A two-layer ReLU network with fixed output weights on the parity of six coordinates: training and
test error against the norm of its weights, one point a run. Beside them networks built by hand, by
training on the six coordinates alone, and the least error that any network of that norm can have.

Source: RN-67, arXiv:1905.10337 Figures 1 and 4, whose panel (a) is the preset `paper` and whose
panel (b) is `panel-b`; RN-74 for the networks built by hand. The frontier (RN-73) is ours.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.allenzhu_li2019.figures.figure4.claims import claims
from unlazy.papers.allenzhu_li2019.figures.figure4.config import (
    NAME,
    VERSION,
    Config,
    HandBuilt,
    Training,
    cells,
)
from unlazy.papers.allenzhu_li2019.figures.figure4.plot import plot
from unlazy.papers.allenzhu_li2019.figures.figure4.run import run
from unlazy.papers.shared.grids.lattice import between

_BUILT = HandBuilt((1e-4, 2e-4, 5e-4, 1e-3), 20_000)
_SMOKE = Config(
    (Training(20, (2.0,), (1e-4, 1e-3), inputs=16, n=1000, epochs=5, n_test=500),),
    HandBuilt((1e-3,), 300, width=64),
    least_test=0.69,
)
_QUICK_GRID = (2.0, 5.0, 10.0), (0.0, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3)
_QUICK = Config(
    tuple(
        Training(m, *_QUICK_GRID, inputs=24, n=1500, epochs=100, n_test=5000) for m in (100, 400)
    ),
    _BUILT,
    least_test=0.69,
    # On record no test error was below 1.03. Some of ours are: .95 here, .86 at m = 200, rate 5.
    refuted=("RN-67/recorded",),
)


def _paper() -> Config:
    """The paper's sizes; fewer runs where the network is large."""
    decays = (0.0, *between(1e-5, 1e-3))
    grids = (
        *((m, between(0.5, 20), decays) for m in (200, 1000, 5000)),
        (20_000, between(1, 10), (1e-5, 5e-5, 1e-4, 5e-4)),
        (100_000, (2.0, 5.0), (1e-5, 5e-5, 1e-4, 5e-4)),
    )
    trainings = tuple(Training(*grid) for grid in grids)
    # One run, of m = 200 at rate 5 and decay 5e-5, comes to .62; the others stay above .77.
    return Config(trainings, _BUILT, least_test=0.69, refuted=("RN-67/test",))


def _panel_b() -> Config:
    """The sizes of panel (b), where an epoch has five times the steps; the widest have few runs.

    With ten times the samples a decay ten times smaller gives the same norm as in panel (a).
    """
    decays = (0.0, 1e-6, 5e-6, 2e-5, 1e-4)
    grids = (
        *((m, between(1, 20), decays) for m in (200, 1000)),
        (5000, between(2, 10), decays[1:]),
        (20_000, between(5, 10), decays[1:4]),
        (50_000, between(5, 10), decays[1:3]),
    )
    sizes = {"inputs": 100, "n": 50_000, "batch_size": 100}
    return Config(tuple(Training(*grid, **sizes) for grid in grids), _BUILT, least_test=0.98)


EXPERIMENT = Experiment(
    name=NAME,
    title="SGD on a parity: errors against the norm of the weights, and what is possible",
    version=VERSION,
    presets={
        "smoke": Preset(_SMOKE, about="d = 16, m = 20, two runs", takes="15 seconds on two cores"),
        "quick": Preset(
            _QUICK,
            about="d = 24, N = 1500, m = 100 and 400, 100 epochs, 42 runs",
            takes="ten seconds on two cores",
        ),
        "paper": Preset(
            _paper(),
            about="d = 40, N = 5000, m = 200 to 100000, 800 epochs, 168 runs",
            takes="100 seconds on one H200 GPU",
        ),
        "panel-b": Preset(
            _panel_b(),
            about="Figure 4(b): d = 100, N = 50000, batches of 100, m = 200 to 50000, 72 runs",
            takes="5 minutes on one H200 GPU",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
