# SPDX-License-Identifier: Apache-2.0
"""How Figure 3 is drawn, from the stored tables."""

from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, log_axes
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.claims import Curves
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.config import Config

_STYLES = {
    "decay": ("weight decay", COLORS[0], "o", "-"),
    "norm": (r"penalty $\|W\|_{2,4}^4$", COLORS[1], "s", "--"),
}


def plot(config: Config, results: Results) -> Figure:
    curves = Curves(config, results)
    fig = figure(7.6, 3.2)
    left, right = fig.subplots(1, 2)
    _plot_errors(left, curves)
    _plot_spread(right, curves)
    for ax in (left, right):
        ax.set(xlabel="width m")
        log_axes(ax, curves.widths)
    one = config.trainings[0]
    title = f"3layer on T1, N = {one.n}, {one.epochs} epochs, {config.seeds} seeds"
    fig.suptitle(title, fontsize=10)
    return fig


def _plot_errors(ax: Axes, curves: Curves) -> None:
    for penalty, (label, color, marker, line) in _STYLES.items():
        style: dict[str, Any] = {"color": color, "marker": marker, "ls": line, "label": label}
        band(ax, curves.widths, curves.of(penalty, "test").T, **style)
        honest = curves.of(penalty, "test", by="validation").mean(axis=1)
        ax.plot(curves.widths, honest, color=color, marker="_", ls="none", ms=9)
    ax.plot([], [], color="gray", marker="_", ls="none", ms=9, label="tuned on validation")
    ax.set_ylabel("test error (mean square)")
    ax.legend(loc="best")


def _plot_spread(ax: Axes, curves: Curves) -> None:
    for penalty, (label, color, marker, line) in _STYLES.items():
        short = label.split(" $")[0]  # the other panel has it in full
        style: dict[str, Any] = {"color": color, "marker": marker}
        values = curves.of(penalty, "spread").T
        band(ax, curves.widths, values, **style, ls=line, label=rf"{short}: $W$")
        moved = curves.of(penalty, "spread_moved").mean(axis=1)
        ax.plot(
            curves.widths, moved, **style, mfc="white", ls=":", lw=1.2, label=rf"{short}: $W - W_0$"
        )
    far = np.array(curves.widths) / 8
    ax.plot(curves.widths, far, color="gray", lw=0.8)
    ax.axhline(1.5, color="gray", lw=0.8, ls=(0, (1, 3)))
    beside: dict[str, Any] = {"xytext": (-2, 4), "textcoords": "offset points", "ha": "right"}
    gray: dict[str, Any] = {"color": "gray", "fontsize": 8}
    middle = len(far) // 2
    ax.annotate("$m/8$", (curves.widths[middle], far[middle]), **beside, **gray)
    ax.annotate("Gaussian $W$, 3/2", (curves.widths[-1], 1.5), **beside, **gray)
    ax.set_ylim(1.2, 6 * far[-1])
    ax.set_ylabel(r"spread ratio $m\,\|\cdot\|_{2,4}^4\,/\,\|\cdot\|_F^4$")
    ax.legend(loc="upper left", fontsize=7.5, ncols=2, columnspacing=1.0, handlelength=1.7)
