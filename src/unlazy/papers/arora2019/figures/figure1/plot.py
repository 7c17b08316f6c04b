# SPDX-License-Identifier: Apache-2.0
"""How Figure 1 is drawn, from the stored tables."""

from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, figure
from unlazy.experiments import Results
from unlazy.papers.arora2019.figures.figure1.claims import panels_of
from unlazy.papers.arora2019.figures.figure1.config import LABELS, Config
from unlazy.papers.arora2019.figures.problems import SHOWN

_DARK = ("#00304d", "#662c00", "#003d2b")  # the prediction, over the curve of the same colour


def plot(config: Config, results: Results) -> Figure:
    panels = list(panels_of(config, results))
    fig = figure(7.2, 0.3 + 2.9 * len(panels))
    axes = fig.subplots(len(panels), 2, squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        _plot_curves(row[0], panel, config)
        _plot_spectrum(row[1], panel)
    return fig


def _plot_curves(ax: Axes, panel: dict[str, Any], config: Config) -> None:
    for kind, labels, color, dark in zip(LABELS, config.labels, COLORS, _DARK, strict=False):
        table = panel[kind].table
        start = table["residual"][0] ** 2
        step = np.maximum(table["step"], 0.5)  # the start, on a logarithmic axis
        ax.plot(step, table["residual"] ** 2 / start, color=color, ls="-", label=f"{labels} labels")
        ax.plot(step, table["predicted"] ** 2 / start, color=dark, ls=":", lw=1.5)
    ax.plot([], [], color="black", ls=":", lw=1.5, label="predicted")
    ax.set(
        xscale="log",
        yscale="log",
        xlabel="step (the start at 1/2)",
        ylabel="training loss / initial loss",
    )
    ax.set_title(f"{SHOWN[panel['problem'].dataset]}, n = {config.n}, m = {config.network.width}")
    ax.legend(loc="lower left")


def _plot_spectrum(ax: Axes, panel: dict[str, Any]) -> None:
    table = panel["spectrum"].table
    # About a thousand dots, evenly spread over the logarithmic axis; the last, the worst, is one.
    n = len(table["index"])
    shown = np.unique(np.geomspace(1, n, 1500).round().astype(int)) - 1
    for kind, color, marker in zip(LABELS, COLORS, "o^s", strict=False):
        size = np.abs(table[f"projection_{kind}"])[shown]
        ax.plot(
            table["index"][shown],
            np.maximum(size, 1e-6),
            color=color,
            marker=marker,
            ls="none",
            ms=2.5,
            alpha=0.6,
            markeredgewidth=0,
            rasterized=True,
            label=f"|projection|, {kind}",
        )
    ax.plot(table["index"], table["eigenvalue"], color="black", ls="-", label="eigenvalue")
    ax.set(xscale="log", yscale="log", xlabel="index", ylabel="eigenvalue, |projection|")
    ax.set_ylim(bottom=1e-5)
    ax.set_title("spectrum of H-infinity and labels on it")
    ax.legend(loc="lower left", markerscale=2)
