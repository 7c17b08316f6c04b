# SPDX-License-Identifier: Apache-2.0
"""How Figure 3 is drawn, from the stored tables."""

from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.core.drawing import COLORS
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.claims import Curves
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.config import Config
from unlazy.papers.shared.grids.ticks import round_ticks

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

_STYLES = {
    "decay": ("weight decay", COLORS[0], "o", "-"),
    "norm": (r"penalty $\|W\|_{2,4}^4$", COLORS[1], "s", "--"),
}


def plot(config: Config, results: Results) -> "matplotlib.figure.Figure":
    from matplotlib.figure import Figure

    curves = Curves(config, results)
    fig = Figure(figsize=(7.6, 3.2))
    left, right = fig.subplots(1, 2)
    _plot_errors(left, curves)
    _plot_spread(right, curves)
    for ax in (left, right):
        ax.set(xlabel="width m", xscale="log", yscale="log")
        ax.set_xticks(curves.widths, [str(width) for width in curves.widths])
        ax.minorticks_off()
        round_ticks(ax)
    one = config.trainings[0]
    title = f"3layer on T1, N = {one.n}, {one.epochs} epochs, {config.seeds} seeds"
    fig.suptitle(title, fontsize=10)
    return fig


def _plot_errors(ax: "matplotlib.axes.Axes", curves: Curves) -> None:
    for penalty, (label, color, marker, line) in _STYLES.items():
        _band(
            ax, curves, curves.of(penalty, "test"), color=color, marker=marker, ls=line, label=label
        )
        honest = curves.of(penalty, "test", by="validation").mean(axis=1)
        ax.plot(curves.widths, honest, color=color, marker="_", ls="none", ms=9)
    ax.plot([], [], color="gray", marker="_", ls="none", ms=9, label="tuned on validation")
    ax.set_ylabel("test error (mean square)")
    ax.legend(loc="best")


def _plot_spread(ax: "matplotlib.axes.Axes", curves: Curves) -> None:
    for penalty, (label, color, marker, line) in _STYLES.items():
        short = label.split(" $")[0]  # the other panel has it in full
        style: dict[str, Any] = {"color": color, "marker": marker}
        values = curves.of(penalty, "spread")
        _band(ax, curves, values, **style, ls=line, label=rf"{short}: $W$")
        moved = curves.of(penalty, "spread_moved").mean(axis=1)
        ax.plot(
            curves.widths, moved, **style, mfc="white", ls=":", lw=1.2, label=rf"{short}: $W - W_0$"
        )
    far = np.array(curves.widths) / 8
    ax.plot(curves.widths, far, color="gray", lw=0.8)
    ax.axhline(1.5, color="gray", lw=0.8, ls=(0, (1, 3)))
    beside: dict[str, Any] = {
        "color": "gray",
        "fontsize": 8,
        "xytext": (-2, 4),
        "textcoords": "offset points",
    }
    middle = len(far) // 2
    ax.annotate("$m/8$", (curves.widths[middle], far[middle]), ha="right", **beside)
    ax.annotate("Gaussian $W$, 3/2", (curves.widths[-1], 1.5), ha="right", **beside)
    ax.set_ylim(1.2, 6 * far[-1])
    ax.set_ylabel(r"spread ratio $m\,\|\cdot\|_{2,4}^4\,/\,\|\cdot\|_F^4$")
    ax.legend(loc="upper left", fontsize=7.5, ncols=2, columnspacing=1.0, handlelength=1.7)


def _band(ax: "matplotlib.axes.Axes", curves: Curves, values: np.ndarray, **style: Any) -> None:
    """The mean, and all seeds as a band."""
    ax.plot(curves.widths, values.mean(axis=1), **style)
    low, high = values.min(axis=1), values.max(axis=1)
    ax.fill_between(curves.widths, low, high, color=style["color"], alpha=0.15, lw=0)
