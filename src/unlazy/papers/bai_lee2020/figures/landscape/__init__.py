# SPDX-License-Identifier: Apache-2.0
"""Landscape: kicked off its saddle at W = 0, the quadratic model descends to one value.

Perturbed gradient descent on the regularised clean risk of 2-XOR: its course, where plain descent
stays at log 2; its end against the width, beside the best multiple of the movement that the theory
makes by hand, and the certificate that bounds it; the smallest curvature at the start and at the
end; and the ends from random movements, which narrow networks trap in other minima.

Source: BL-E5 and BL-23, arXiv:1910.01619 section 4. The paper has no figure; this is the one that
its section asks for.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.bai_lee2020.figures.landscape.claims import claims
from unlazy.papers.bai_lee2020.figures.landscape.config import (
    NAME,
    VERSION,
    Config,
    Descents,
    cells,
)
from unlazy.papers.bai_lee2020.figures.landscape.plot import plot
from unlazy.papers.bai_lee2020.figures.landscape.run import run

EXPERIMENT = Experiment(
    name=NAME,
    title="Perturbed descent leaves the saddle of the quadratic model for its minimum",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(tuple(Descents(m, kicked=2, random=3) for m in (4, 16)), 3),
            about="m = 4 and 16, 3 draws of data and network, 5 descents each",
            takes="a minute on two cores",
        ),
        "quick": Preset(
            Config(tuple(Descents(m) for m in (4, 8, 16, 64, 256)), 3),
            about="m = 4 to 256, 3 draws, 5 descents from W = 0 and 8 from random movements each",
            takes="a minute or two on two cores",
        ),
        "paper": Preset(
            Config(
                tuple(Descents(m, random=20) for m in (4, 8, 16, 32, 64, 128, 256, 1024)),
                10,
                # At m = 1024 descent stops within its tolerance of a curvature of 0; the bound
                # rises by 1% from m = 4 to 8; 3 of 1200 starts at m = 16 and 32 end higher.
                refuted=("second-order", "BL-23/falls", "random-wide"),
            ),
            about="m = 4 to 1024, 10 draws, 5 descents from W = 0 and 20 from random movements",
            takes="9 minutes on two cores with --workers 2",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    on_processor=True,
)
