# SPDX-License-Identifier: Apache-2.0
"""Figure 2: a three-layer ResNet learns a composite signal that kernels do not.

The target has a base signal F, products of pairs of coordinates, and a small composite one, a
product of four of those. Test errors against the width, (a) with all layers trained, beside the
linearised networks (NTK) and their last layers alone, (b) with the hidden layers trained, on twice
the samples. Whoever learns F alone stays at the dashed line. The kernels are trained by SGD, as in
the paper, and solved exactly besides: the linearised networks with the kernel that couples all
outputs, and also with its average over the outputs, which is another kernel and the one that all
have in the limit of infinite width. Into the shaded part no dot-product kernel can go, whatever its
weights.

Source: RN-61 and RN-62, arXiv:1905.10337 Figure 2. The exact solutions and the certificate (RN-24)
are ours.
"""

from unlazy.experiments import Experiment
from unlazy.papers.allenzhu_li2019.figures.figure2.claims import claims
from unlazy.papers.allenzhu_li2019.figures.figure2.config import NAME, VERSION, cells, notes
from unlazy.papers.allenzhu_li2019.figures.figure2.plot import plot
from unlazy.papers.allenzhu_li2019.figures.figure2.presets import PRESETS
from unlazy.papers.allenzhu_li2019.figures.figure2.run import run

EXPERIMENT = Experiment(
    name=NAME,
    title="A three-layer ResNet against other networks and kernels on parities of parities",
    version=VERSION,
    presets=PRESETS,
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    notes=notes,
)
