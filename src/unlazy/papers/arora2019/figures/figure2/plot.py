# SPDX-License-Identifier: Apache-2.0
"""How Figure 2 is drawn, from the stored tables."""

from unlazy.core.drawing import COLORS, Axes, Figure, figure
from unlazy.experiments import Results
from unlazy.papers.arora2019.figures.figure2.claims import Panel, panels_of
from unlazy.papers.arora2019.figures.figure2.config import Config
from unlazy.papers.arora2019.figures.problems import SHOWN


def plot(config: Config, results: Results) -> Figure:
    panels = list(panels_of(config, results))
    fig = figure(7.2, 0.3 + 2.7 * len(panels))
    axes = fig.subplots(len(panels), 2, squeeze=False)
    for row, panel in zip(axes, panels, strict=True):
        _plot_measure(row[0], panel)
        _plot_errors(row[1], panel, config)
    return fig


def _plot_measure(ax: Axes, panel: Panel) -> None:
    ax.plot(panel.kernel["fraction"], panel.kernel["measure"], color="black", marker="o", ls="-")
    ax.axhline(1, color="black", lw=0.8, ls=":")
    ax.annotate("as a bound, empty above", (1, 1), ha="right", va="bottom", fontsize=8)
    ax.set(xlabel="share of random labels", ylabel="sqrt(2 y' H^-1 y / n)", ylim=(0, None))
    ax.set_title(f"{SHOWN[panel.problem.dataset]}, n = {panel.problem.n}: measure")


def _plot_errors(ax: Axes, panel: Panel, config: Config) -> None:
    for name, color in (("l1", COLORS[0]), ("error", COLORS[1])):
        kernel, network = panel.kernel, panel.network
        ax.plot(kernel["fraction"], kernel[name], color=color, ls="-", label=f"{name}, kernel")
        label = f"{name}, network"
        ax.plot(network["fraction"], network[name], color=color, ls="--", marker="s", label=label)
    ax.set(xlabel="share of random labels", ylabel="l1 loss, error", ylim=(0, 1.4))
    ax.set_title(f"test set; network of width {config.network.width}")
    ax.legend(loc="upper left", ncols=2)
