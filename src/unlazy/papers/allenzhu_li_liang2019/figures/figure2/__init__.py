# SPDX-License-Identifier: Apache-2.0
"""Figure 2: a three-layer network learns a composed target that no kernel and no two layers do.

The target is (tanh 8x_1 + tanh 8x_2 + tanh 8x_3 - 2)^2 tanh 8x_4.
Left: the test error against the width at 1000 samples, right: against the number of samples, for
two- and three-layer networks whose hidden weights are trained, for their linearisations (NTK), and
for training the last layer alone. The kernels are trained by SGD, as in the paper, and also solved
exactly.

Source: LG-52, arXiv:1811.04918 Figure 2. The sizes, grids and the exact solutions are ours.
"""

from unlazy.papers.allenzhu_li_liang2019.figures.comparison.experiment import experiment

# Claims of the paper that our runs do not bear out.
_REFUTED = ("hidden", "kernels", "kernels-exact")

EXPERIMENT = experiment("composed-tanhs", "T2", refuted_quick=_REFUTED, refuted_paper=_REFUTED)
