# SPDX-License-Identifier: Apache-2.0
"""Extraction: random multipliers with matched moments single out the k-th Taylor term, for any k.

Two copies of every neuron, of opposite output weights, move by random multiples of one vector; the
moments of the two multipliers agree below order k. Top: the size of every Taylor term against the
width, for k = 2, 3, 4. Bottom: the same with all multiples taken at once, so that nothing is
random: all terms below the k-th are zero.

Source: BL-E4, BL-43 and BL-44, arXiv:1910.01619 section 6. The paper has no figure; this is the one
that its section asks for. The bottom row is ours.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.bai_lee2020.figures.extraction.claims import claims
from unlazy.papers.bai_lee2020.figures.extraction.config import NAME, VERSION, Config, cells
from unlazy.papers.bai_lee2020.figures.extraction.plot import plot
from unlazy.papers.bai_lee2020.figures.extraction.run import run

EXPERIMENT = Experiment(
    name=NAME,
    title="Matched moments extract the k-th Taylor term, by sampling or exactly",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(tuple(2**k for k in range(6, 13, 2)), 6, (2, 3), (), (3,)),
            about="m = 2^6 to 2^12, k = 2 and 3, 6 seeds",
            takes="half a minute on two cores",
        ),
        "quick": Preset(
            Config(tuple(2**k for k in range(6, 17, 2)), 8),
            about="m = 2^6 to 2^16, k = 2, 3, 4, 8 seeds",
            takes="about a minute on two cores",
        ),
        "paper": Preset(
            Config(tuple(2**k for k in range(6, 17)), 64),
            about="m = 2^6 to 2^16 by factors of 2, k = 2, 3, 4, 64 seeds",
            takes="2.5 minutes on one H200 GPU, about ten on two cores",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
