# SPDX-License-Identifier: Apache-2.0
"""The plot of Figure 3, from the stored tables."""

from typing import Any

from unlazy.core.drawing import COLORS, Figure, band, figure
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li2019.figures.figure3.claims import Curves
from unlazy.papers.allenzhu_li2019.figures.figure3.config import Config


def plot(config: Config, results: Results) -> Figure:
    fig = figure(5.2, 3.6)
    ax = fig.subplots()
    for place, sweep in enumerate(config.sweeps):
        curves, color = Curves(config, sweep, results), COLORS[place]
        size = f"N = {sweep.task.n}"
        style: dict[str, Any] = {"marker": "os"[place], "ls": "-"}
        style["label"] = f"{sweep.method}, {size}, m = {sweep.width}"
        band(ax, sweep.betas, curves.errors().T, color=color, **style)
        dotted: dict[str, Any] = {"marker": "^", "mfc": "white", "ls": ":", "lw": 1.2}
        dotted["label"] = f"kernel of infinite width, {size}"
        ax.plot(sweep.betas, curves.kernel().mean(axis=1), color=color, **dotted)
    alpha = config.sweeps[0].task.alpha
    ax.axhline(1, color="black", ls="--", lw=1.1, label=r"predicting $\beta F$")
    ax.axvline(alpha, color="gray", ls=(0, (1, 3)), lw=1)
    beside: dict[str, Any] = {"xycoords": ("data", "axes fraction"), "xytext": (4, 2)}
    said = r"$\beta = \alpha$"
    ax.annotate(said, (alpha, 0.02), **beside, textcoords="offset points", color="gray")
    ax.set(xlabel=r"size $\beta$ of the base signal", yscale="log")
    ax.set_ylabel(r"test error $/\ k\alpha^2$")
    ax.set_xlim(-0.02, 0.02 + max(config.sweeps[0].betas))
    ax.legend(loc="best", fontsize=8)
    task, epochs = config.sweeps[0].task, config.sweeps[0].epochs
    ax.set_title(
        rf"$y = \beta F + {task.alpha:g}\,G(F)$, d = {task.inputs}, {epochs} epochs, "
        f"{config.seeds} seeds"
    )
    return fig
