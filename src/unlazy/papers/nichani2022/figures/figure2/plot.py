# SPDX-License-Identifier: Apache-2.0
"""How Figure 2 is drawn, from the stored tables."""

from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, hues
from unlazy.experiments import Results
from unlazy.papers.bai_lee2020.figures.exponents import power_law
from unlazy.papers.nichani2022.figures.figure2.claims import METHODS, Price, losses, price
from unlazy.papers.nichani2022.figures.figure2.config import LEVEL, AuthorsSweep, Config

_MARKS = {"network": ("o", "-"), "kernel": ("s", "--")}


def plot(config: Config, results: Results) -> Figure:
    fig = figure(8.4, 3.8)
    left, right = fig.subplots(1, 2, width_ratios=(1.15, 1))
    _plot_losses(left, config, results)
    _plot_prices(right, config, results)
    handles, labels = left.get_legend_handles_labels()
    columns = len(labels) if len(labels) <= 9 else -(-len(labels) // 2)
    fig.legend(handles, labels, loc="outside lower center", ncols=columns, columnspacing=1.2)
    one = config.sweeps[0]
    fig.suptitle(
        "dense quadratic plus sparse cubic: ReLU network under gradient descent, "
        f"m = {one.width}, medians of {one.seeds} seeds",
        fontsize=10,
    )
    return fig


def _plot_losses(ax: Axes, config: Config, results: Results) -> None:
    for color, sweep in zip(hues(len(config.sweeps)), config.sweeps, strict=True):
        for method in sweep.methods:
            marker, line = _MARKS[method]
            found = losses(results, sweep, method)
            label = f"d = {sweep.inputs}" if method == "network" else None
            ratios = found.ns / sweep.inputs**2
            style = {"color": color, "marker": marker, "ls": line, "ms": 3.5, "label": label}
            band(ax, ratios, found.seeds, middle=found.middle, **style)
    for method in config.sweeps[0].methods:
        marker, line = _MARKS[method]
        ax.plot([], [], color="gray", marker=marker, ls=line, ms=3.5, label=METHODS[method])
    ax.axhline(LEVEL, color="black", lw=0.8, ls=(0, (1, 1)))
    ax.set(xscale="log", yscale="log", xlabel="samples, n / $d^2$", ylabel="test loss")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_xticks([tick for tick in (2, 5, 10, 20, 40) if tick <= ax.get_xlim()[1]])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.set_yticks([tick for tick in (0.02, 0.05, 0.1, 0.2, 0.5, 1) if tick <= ax.get_ylim()[1]])
    ax.minorticks_off()
    ax.set_title("test loss")


def _plot_prices(ax: Axes, config: Config, results: Results) -> None:
    for method, color in zip(config.sweeps[0].methods, COLORS, strict=False):
        marker, line = _MARKS[method]
        found = price(config, results, method)
        if not len(found.dimensions):
            continue
        _price(ax, found, METHODS[method], color=color, marker=marker, ls=line)
    dimensions = [sweep.inputs for sweep in config.sweeps]
    if isinstance(config.sweeps[0], AuthorsSweep):
        _reference_lines(ax, np.array(dimensions, float))
    ax.set(xscale="log", yscale="log", xlabel="dimension d", ylabel="samples to a loss of 0.1")
    ax.set_xticks(dimensions, [str(d) for d in dimensions])
    ax.minorticks_off()
    low, high = ax.get_ylim()
    ax.set_ylim(low, 2.5 * high)  # room for the legend
    ax.set_title("smallest n")
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="upper left")


def _reference_lines(ax: Axes, d: np.ndarray) -> None:
    ax.plot(d, 6 * d**2, color="gray", lw=1.0, ls=":", label="$6 d^2$")
    ax.plot(d, d**3, color="gray", lw=1.0, ls="--", label="$d^3$")


def _price(ax: Axes, found: Price, name: str, **style: Any) -> None:
    d, line = found.dimensions, style.pop("ls")
    label = name
    slope = found.exponent
    if np.isfinite(slope.value):
        label = f"{name}: $d^{{{slope.value:.2f} \\pm {slope.error:.2f}}}$"
        fitted = power_law(d, found.samples, slope.value)
        ax.plot(d, fitted, color=style["color"], ls=line, lw=1.2)
    ax.plot(d, found.samples, **style, ls="none", ms=5, label=label)
    places = np.broadcast_to(d, found.seeds.shape)
    ax.plot(places, found.seeds, color=style["color"], marker="_", ls="none", ms=6, alpha=0.6)
