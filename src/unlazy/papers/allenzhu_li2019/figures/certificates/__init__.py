# SPDX-License-Identifier: Apache-2.0
r"""Certificates: on how many parity targets every kernel method fails, whatever its weights.

The targets are $x_i + \alpha \chi_S(x)$ for all sets S of k coordinates of a cube; a target is bad
for a learner when no function in its span has a risk of at most $\alpha^2/16$ on any output. Top:
the share of bad targets against the number of samples (or features), exact for each learner, the
bound for all dot-product kernels at once, and what counting alone proves. Bottom: the least risk
over all targets.

Source: RN-21 to RN-25 and RN-46 to RN-50, arXiv:1905.10337 Theorems 2 and 3. The paper has no
figure of these; the counting bound is sharper than its own.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.allenzhu_li2019.figures.certificates.claims import claims
from unlazy.papers.allenzhu_li2019.figures.certificates.config import (
    NAME,
    VERSION,
    Config,
    Panel,
    cells,
)
from unlazy.papers.allenzhu_li2019.figures.certificates.plot import plot
from unlazy.papers.allenzhu_li2019.figures.certificates.run import run

EXPERIMENT = Experiment(
    name=NAME,
    title="Certificates: the share of parity targets on which all kernel methods fail",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(
                panels=(Panel(8, 3, (10, 28, 56, 120)),),
                literal=(Panel(10, 5, (2,)),),
                kernels=("arcsin", "exponential", "cubic"),
                seeds=1,
                remark_sizes=(20,),
            ),
            about="d = 8, k = 3, three kernels, one seed",
            takes="10 seconds on two cores",
        ),
        "quick": Preset(
            Config(
                panels=(
                    Panel(10, 3, (20, 40, 60, 120, 200, 300, 450)),
                    Panel(12, 2, (20, 40, 66, 100, 140, 200, 300)),
                ),
                literal=(Panel(14, 7, (3, 34)), Panel(16, 8, (12,))),
                seeds=3,
            ),
            about="d = 10, k = 3 and d = 12, k = 2, seven kernels, 3 seeds; d = 14 and 16 at 1%",
            takes="half a minute on two cores",
        ),
        "paper": Preset(
            Config(
                panels=(
                    Panel(10, 3, (10, 20, 40, 60, 90, 120, 160, 200, 250, 300, 375, 450, 600)),
                    Panel(12, 2, (10, 20, 40, 66, 80, 100, 120, 140, 170, 200, 250, 300, 400)),
                ),
                literal=(Panel(14, 7, (3, 34)), Panel(16, 8, (12, 128))),
                seeds=20,
            ),
            about="the same with more sizes and 20 seeds, and d = 16 at 1%",
            takes="6 minutes on two cores",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
    on_processor=True,
)
