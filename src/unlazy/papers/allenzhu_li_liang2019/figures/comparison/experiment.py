# SPDX-License-Identifier: Apache-2.0
"""Figures 1 and 2 as experiments, with the sizes at which they are run."""

from unlazy.experiments import Experiment, Preset
from unlazy.papers.allenzhu_li_liang2019.figures.comparison import config
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.claims import claims
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Config, Size
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.plot import plot
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.run import run


def experiment(
    target: str, label: str, *, refuted_quick: tuple[str, ...], refuted_paper: tuple[str, ...]
) -> Experiment:
    """The experiment on a target, with the claims that our runs are recorded to refute."""
    return Experiment(
        name=config.NAMES[target],
        title=f"Three layers against two and against kernels on a composed target, {label}",
        version=config.VERSION,
        presets={
            "smoke": Preset(
                _smoke(target), "m = 32, N = 50, 100, two lanes each", "40 seconds on two cores"
            ),
            "quick": Preset(
                _quick(target, refuted_quick),
                about="m = 32 to 128 at N = 1000, N = 200 to 2000 at m = 64; 4000 steps, 12-point "
                "grids, 3 seeds",
                takes="a minute and a half on two cores",
            ),
            "paper": Preset(
                _paper(target, refuted_paper),
                about="m = 50 to 5000 at N = 1000, N = 100 to 5000 at m = 2000; 800 epochs, "
                "the whole grid (a part for the largest 3layer), 3 seeds",
                takes="4 minutes on one H200 GPU",
            ),
        },
        cells=config.cells,
        run=run,
        claims=claims,
        plot=plot,
        notes=config.notes,
    )


def _smoke(target: str) -> Config:
    few = Size(32, 50, 100), Size(32, 100, 100)
    return Config(target, few[1:], few, 2, "pair", n_validation=100, n_test=400, orders=False)


def _quick(target: str, refuted: tuple[str, ...]) -> Config:
    widths = tuple(Size(m, 1000, 200) for m in (32, 64, 128))
    few = tuple(Size(64, n, 200_000 // n) for n in (200, 500, 1000, 2000))
    return Config(target, widths, few, 3, "reduced", refuted=refuted)


def _paper(target: str, refuted: tuple[str, ...]) -> Config:
    """The paper's sizes; the grid of 3layer is thinned where a step reads gigabytes of weights."""
    widths = tuple(Size(m, 1000, 800) for m in (50, 200, 500, 2000, 5000))
    *few, most = samples = tuple(Size(2000, n, 800) for n in (100, 300, 1000, 5000))
    thin = ((most, "narrow"), (widths[-1], "narrow"), *((size, "natural") for size in few))
    return Config(target, widths, samples, 3, "full", three_layer_grids=thin, refuted=refuted)
