# SPDX-License-Identifier: Apache-2.0
"""Sample complexity: the quadratic model learns products from fewer samples than the kernels.

Test error against the number of samples, for the NTK, for the kernel of the quadratic features with
free matrices, for the quadratic model f^Q itself and for the network with one draw of the signs: on
2-XOR and on sparse polynomials on the sphere, strengths chosen on a validation set. The kernels are
also fitted with the loss of f^Q, to tell what the loss does. Last: the samples that 2-XOR needs to
10% error against the dimension.

Source: BL-E2 and BL-E3, arXiv:1910.01619 section 5. The paper has no figure; this is the one that
its section asks for.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.bai_lee2020.figures.sample_complexity.claims import claims
from unlazy.papers.bai_lee2020.figures.sample_complexity.config import (
    NAME,
    VERSION,
    Config,
    Task,
    cells,
)
from unlazy.papers.bai_lee2020.figures.sample_complexity.plot import plot
from unlazy.papers.bai_lee2020.figures.sample_complexity.run import run

_WIDE = (1e-6, 1e-5, 1e-4, 1e-3)
_RIDGES = (1e-4, 1e-2, 1e-1)  # without noise on the labels, less is no different
_XOR = Task("two-xor", 20, 100, (100, 150, 200, 300), (1e-6, 1e-5, 1e-4), 60)
_PRODUCT_40 = Task("product", 40, 60, (200, 400, 800), _WIDE, 100, ridges=_RIDGES)
_PRODUCT_20 = Task("product", 20, 100, (50, 100, 200, 400), _WIDE, 100, ridges=_RIDGES)
_QUARTIC = Task("quartic", 10, 150, (50, 100, 200, 400), _WIDE, 100, ridges=_RIDGES)

EXPERIMENT = Experiment(
    name=NAME,
    title="The quadratic model learns products from fewer samples than the tangent kernel",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(
                (
                    (Task("two-xor", 10, 40, (60, 90), (1e-5,), 40, n_valid=100, n_test=500), 3),
                    (
                        Task(
                            *("product", 20, 60, (200, 400), (1e-5, 1e-4), 60),
                            ridges=(1e-3,),
                            n_valid=100,
                            n_test=500,
                        ),
                        3,
                    ),
                )
            ),
            about="2-XOR at d = 10, n = 60 and 90; x1 x2 at d = 20, n = 200 and 400; 3 seeds",
            takes="a minute on two cores",
        ),
        "quick": Preset(
            Config(((_XOR, 10), (_PRODUCT_40, 5)), (8, 12, 16, 24, 32), 5),
            about="2-XOR at d = 20, n = 100 to 300, 10 seeds; x1 x2 at d = 40, n = 200 to 800, and "
            "2-XOR at d = 8 to 32, 5 seeds",
            takes="about 2 minutes on two cores",
        ),
        "paper": Preset(
            Config(
                ((_XOR, 20), (_PRODUCT_40, 10), (_PRODUCT_20, 10), (_QUARTIC, 10)),
                (8, 12, 16, 24, 32, 48, 64),
                10,
            ),
            about="all targets, 2-XOR with 20 seeds, the others with 10; dimensions 8 to 64",
            takes="5 minutes on one H200 GPU, an hour on two cores",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
