# SPDX-License-Identifier: Apache-2.0
"""Figure 3: trained weights are spread over the neurons, with or without a penalty for it.

A three-layer network is trained on the target of Figure 1, with weight decay on both layers, or
with the penalty of the (2,4) norm in place of decay on the first. Left: the test errors. Right: the
spread ratio of the trained W, which is 1 if all neurons have the same norm and m if one has it all,
and that of its movement.

Source: LG-53, arXiv:1811.04918 Figure 3. The paper does not say that the second layer keeps its
decay; that is our choice.
"""

from typing import Any

from unlazy.experiments import Experiment, Preset
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.claims import claims
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.config import (
    NAME,
    VERSION,
    Config,
    Training,
    cells,
)
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.plot import plot
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.run import run
from unlazy.papers.shared.grids.lattice import run_from

_DECAYS = (1e-5, 1e-4, 1e-3)


def _pair(
    width: int,
    *,
    rates: int,
    decays: tuple[float, ...],
    second: tuple[float, ...],
    strengths: tuple[float, ...],
    low: float = 0.3,
    seeds: int = 3,
    **options: Any,
) -> tuple[Training, Training]:
    """Both penalties at one width; `second` are the decays of the second layer under "norm"."""
    grid = run_from(low / width, rates)
    return (
        Training("decay", width, grid, decays, (0.0,), seeds, **options),
        Training("norm", width, grid, second, strengths, seeds, **options),
    )


def _quick() -> Config:
    pairs = [
        _pair(m, rates=3, decays=_DECAYS, second=(1e-5, 1e-4), strengths=(1e-7, 1e-6))
        for m in (32, 64, 128)
    ]
    return Config(sum(pairs, ()))


def _smoke() -> Config:
    one: dict[str, Any] = {"rates": 1, "decays": (1e-4,), "second": (1e-4,), "strengths": (1e-4,)}
    sets: dict[str, Any] = {"n": 100, "n_validation": 100, "n_test": 400, "seeds": 2}
    return Config(_pair(32, **one, **sets, epochs=150, extend=0))


def _paper() -> Config:
    """The paper's sizes, with fewer lanes where the network is large, as in Figure 1."""
    second, strengths = (1e-5, 1e-4), (1e-8, 1e-7, 1e-6)
    wide: dict[str, Any] = {"rates": 5, "low": 0.2, "second": second, "strengths": strengths}
    pairs = [_pair(m, decays=(0.0, *_DECAYS), **wide, epochs=800) for m in (200, 500, 1000)]
    large: dict[str, Any] = {"low": 1.0, "second": (1e-4,), "epochs": 800}
    pairs.append(_pair(2000, rates=4, decays=(0.0, *_DECAYS[:2]), strengths=strengths, **large))
    pairs.append(_pair(5000, rates=4, decays=_DECAYS[1:2], strengths=strengths[:2], **large))
    return Config(sum(pairs, ()), alone=(5000,))


EXPERIMENT = Experiment(
    name=NAME,
    title="Weight decay and a penalty on the (2,4) norm: test errors, and how spread W is",
    version=VERSION,
    presets={
        "smoke": Preset(
            _smoke(), about="m = 32, N = 100, one lane each", takes="15 seconds on two cores"
        ),
        "quick": Preset(
            _quick(),
            about="m = 32, 64, 128, N = 1000, 100 epochs, 9 and 12 lanes, 3 seeds",
            takes="half a minute on two cores",
        ),
        "paper": Preset(
            _paper(),
            about="m = 200 to 5000, N = 1000, 800 epochs, 4 to 30 lanes, 3 seeds",
            takes="5 to 6 minutes on one H200 GPU",
        ),
    },
    cells=cells,
    run=run,
    claims=claims,
    plot=plot,
)
