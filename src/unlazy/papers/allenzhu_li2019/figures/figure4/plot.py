# SPDX-License-Identifier: Apache-2.0
"""The plot of Figure 4, from the stored tables."""

from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, figure, spanning
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li2019.figures.figure4.claims import QUOTED, Runs, frontier_error
from unlazy.papers.allenzhu_li2019.figures.figure4.config import Config

_MARKERS = "osDPX^v"
_TOP = {"train": 1.0, "test": 1.6}


def plot(config: Config, results: Results) -> Figure:
    runs, one = Runs(config, results), config.trainings[0]
    fig = figure(7.6, 3.6)
    axes = fig.subplots(1, 2, sharex=True)
    norms = np.concatenate([runs.all["norm"], runs.built["norm"]])
    low, high = spanning(norms, 0.8, 1.15, otherwise=(1.0, 100.0))
    for ax, column in zip(axes, ("train", "test"), strict=True):
        for place, (width, table) in enumerate(runs.by_width.items()):
            style: dict[str, Any] = {"color": COLORS[place], "marker": _MARKERS[place], "ms": 4}
            errors = np.minimum(table[column], _TOP[column])
            ax.plot(table["norm"], errors, **style, ls="none", alpha=0.8, label=f"SGD, m = {width}")
        _plot_built(ax, runs, config.built.degree, np.geomspace(low, high, 400))
        ax.set(xlabel=r"$\|W\|_F\,/\sqrt{d}$", ylabel=f"{column} error", xscale="log")
        ax.set_xlim(low, high)
        ax.set_ylim(-0.03 * _TOP[column], 1.03 * _TOP[column])
        ticks = [tick for tick in (1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= tick <= high]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.minorticks_off()
    above = int(np.sum(runs.all["test"] > _TOP["test"]))
    if above:
        said = f"{above} above {_TOP['test']:g}, drawn there"
        axes[1].annotate(said, (0.02, 0.95), xycoords="axes fraction", fontsize=8)
    axes[0].legend(loc="upper right", fontsize=8)
    fig.suptitle(
        f"parity of degree {config.built.degree} on $\\{{\\pm1/\\sqrt{{d}}\\}}^d$, "
        f"d = {one.inputs}, N = {one.n}, {one.epochs} epochs, {len(runs.all['test'])} runs of SGD",
        fontsize=10,
    )
    return fig


def _plot_built(ax: Axes, runs: Runs, degree: int, grid: np.ndarray) -> None:
    least = frontier_error(grid, degree)
    ax.fill_between(grid, least, color="black", alpha=0.07, lw=0)
    ax.plot(grid, least, color="black", lw=1.2, ls="-", label="least possible")
    black: dict[str, Any] = {"color": "black"}
    stars: dict[str, Any] = black | {"marker": "*", "ms": 8, "mfc": "gold", "ls": ":", "lw": 0.8}
    ax.plot(runs.built["norm"], runs.built["test"], **stars, label="built by hand")
    quoted = list(QUOTED.values()), list(QUOTED)
    ax.plot(*quoted, **black, marker="x", ms=6, ls="none", label="built by hand, quoted")
