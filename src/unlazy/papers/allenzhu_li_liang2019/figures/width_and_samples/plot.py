# SPDX-License-Identifier: Apache-2.0
"""How the figure on samples against the width is drawn, from the stored tables."""

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, hues, log_axes
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.claims import Losses
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.config import VARIANTS, Config


def plot(config: Config, results: Results) -> Figure:
    losses = Losses(config, results)
    fig = figure(9.6, 3.2)
    panels = fig.subplots(1, 3)
    for ax, variant in zip(panels, VARIANTS, strict=False):
        _plot_losses(ax, losses, variant)
    _plot_needed(panels[2], losses)
    return fig


def _plot_losses(ax: Axes, losses: Losses, variant: int) -> None:
    config = losses.config
    found = losses.gaps(variant)
    for i, (m, color) in enumerate(zip(config.widths, hues(len(config.widths)), strict=True)):
        band(ax, config.sizes, found[:, i], color=color, marker="o", label=f"m = {m}")
    ax.axhline(losses.level, color="gray", lw=0.8)
    ax.set(xlabel="samples N", ylabel="test loss - training loss")
    ax.set_title(f"variant {variant}, {'with' if variant == 2 else 'without'} random signs")
    ax.set_xscale("log")
    ax.set_xticks(config.sizes, [str(n) for n in config.sizes])
    ax.minorticks_off()
    ax.legend(loc="best")


def _plot_needed(ax: Axes, losses: Losses) -> None:
    config = losses.config
    widths = np.array(config.widths)
    for variant, color, marker in zip(VARIANTS, COLORS, "os", strict=False):
        needed = losses.needed(variant)
        shown = np.where(np.isfinite(needed), needed, np.nan)
        ax.plot(widths, shown, color=color, marker=marker, label=f"variant {variant}")
    low = config.sizes[0]
    ax.plot(widths, low * (widths / widths[0]) ** 1.5, color="gray", lw=0.8, ls="--")
    ax.annotate("$m^{3/2}$", (widths[-1], low * (widths[-1] / widths[0]) ** 1.5), ha="right")
    ax.set(xlabel="width m", ylabel="samples to the gray line")
    log_axes(ax, config.widths)
    ax.legend(loc="best")
