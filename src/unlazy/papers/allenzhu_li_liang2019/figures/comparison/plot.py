# SPDX-License-Identifier: Apache-2.0
"""How Figures 1 and 2 are drawn, from the stored tables."""

from typing import Any

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, log_axes
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.claims import Curves
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Config, Size
from unlazy.papers.allenzhu_li_liang2019.figures.learners import KERNELS, METHODS

STYLES = dict(zip(METHODS, zip(COLORS, "osv^DP", strict=False), strict=True))
_TITLES = {
    "composed-sines": r"$y = (\sin 3x_1 + \sin 3x_2 + \sin 3x_3 - 2)^2 \cos 7x_4$",
    "composed-tanhs": r"$y = (\tanh 8x_1 + \tanh 8x_2 + \tanh 8x_3 - 2)^2 \tanh 8x_4$",
}


def plot(config: Config, results: Results) -> Figure:
    curves = Curves(config, results)
    fig = figure(7.6, 3.9)
    left, right = fig.subplots(1, 2, sharey=True)
    _plot_panel(left, curves, config.widths, [size.width for size in config.widths])
    _plot_panel(right, curves, config.samples, [size.n for size in config.samples])
    left.set(xlabel="width m", ylabel="test error (mean square)")
    left.set_title(f"N = {config.widths[0].n} samples")
    right.set(xlabel="samples N")
    right.set_title(f"width m = {config.samples[0].width}")
    fig.suptitle(f"{_TITLES[config.target]}, {config.seeds} seeds", fontsize=10)
    _legend(fig, left)
    return fig


def _plot_panel(ax: Axes, curves: Curves, sizes: tuple[Size, ...], places: list[int]) -> None:
    for method in METHODS:
        color, marker = STYLES[method]
        style: dict[str, Any] = {"color": color, "marker": marker}
        band(ax, places, curves.along(method, sizes).T, **style, ls="-", label=method)
        honest = curves.along(method, sizes, by="validation").mean(axis=1)
        ax.plot(places, honest, color=color, marker="_", ls="none", ms=9, mew=1.0)
        if method in KERNELS:
            exact = curves.along(method, sizes, solver="ridge").mean(axis=1)
            ax.plot(places, exact, **style, mfc="white", ls=":", lw=1.2)
    ax.axhline(curves.energy(), color="gray", lw=0.8, ls=(0, (1, 3)), zorder=1)
    log_axes(ax, places)


def _legend(fig: Figure, ax: Axes) -> None:
    from matplotlib.lines import Line2D

    handles, _ = ax.get_legend_handles_labels()
    gray: dict[str, Any] = {"color": "gray", "marker": "o"}
    handles += [
        Line2D([], [], **gray, ls="-", label="trained by SGD (band: all seeds)"),
        Line2D([], [], **gray, ls=":", mfc="white", label="kernel solved exactly"),
        Line2D([], [], color="gray", marker="_", ls="none", ms=9, label="tuned on validation"),
        Line2D([], [], color="gray", lw=0.8, ls=(0, (1, 3)), label="predicting zero"),
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=4)
