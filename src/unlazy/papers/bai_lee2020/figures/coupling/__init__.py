# SPDX-License-Identifier: Apache-2.0
"""Coupling: with random signs a wide network follows its quadratic model, at rate m^(-1/4).

Left: the size of the linear term, the quadratic term and the remainder against the width, where
every neuron moves by m^(-1/4), with random signs and without. Right: networks trained by SGD on the
randomised risk of 2-XOR; their risk beside that of the quadratic model, and the distance between
the two outputs.

Source: BL-E1 and BL-T18, arXiv:1910.01619 section 3 (Lemmas 10 to 12). The paper has no figure;
this is the one that its section asks for.
"""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.bai_lee2020.figures.coupling.claims import claims
from unlazy.papers.bai_lee2020.figures.coupling.config import (
    NAME,
    VERSION,
    Config,
    Parts,
    Trained,
    cells,
)
from unlazy.papers.bai_lee2020.figures.coupling.plot import plot
from unlazy.papers.bai_lee2020.figures.coupling.run import run


def _powers(first: int, last: int, step: int = 1) -> tuple[int, ...]:
    return tuple(2**k for k in range(first, last + 1, step))


EXPERIMENT = Experiment(
    name=NAME,
    title="Random signs couple a wide network to its quadratic model",
    version=VERSION,
    presets={
        "smoke": Preset(
            Config(Parts(_powers(7, 13, 2)), 4, (Trained(64, steps=250, n_test=200),), 3),
            about="m = 2^7 to 2^13; training at m = 64, 250 steps",
            takes="40 seconds on two cores",
        ),
        "quick": Preset(
            Config(Parts(_powers(7, 15, 2)), 4, tuple(Trained(m) for m in _powers(6, 11)), 3),
            about="m = 2^7 to 2^15, 4 seeds; training at m = 64 to 2048, 600 steps, 3 seeds",
            takes="about a minute and a half on two cores",
        ),
        "paper": Preset(
            Config(
                Parts(_powers(7, 18)), 10, tuple(Trained(m, steps=1500) for m in _powers(6, 14)), 10
            ),
            about="m = 2^7 to 2^18, training at m = 64 to 16384, 1500 steps, 10 seeds each",
            takes="3 minutes on one H200 GPU, about an hour on two cores",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
