# SPDX-License-Identifier: Apache-2.0
"""The plot of Figure 2, from the stored tables."""

from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes, Figure, band, figure, round_ticks, spanning
from unlazy.experiments import Results
from unlazy.papers.allenzhu_li2019.figures.figure2.claims import Curves
from unlazy.papers.allenzhu_li2019.figures.figure2.config import KERNELS, NETWORKS, TANGENT, Config
from unlazy.papers.allenzhu_li2019.figures.linear_models import LIMITS, parts

_COLORS: dict[str, str] = dict(zip(NETWORKS, COLORS, strict=False))
_BESIDE = dict(zip(NETWORKS, (-0.035, 0.0, 0.035), strict=True))  # of the axis
_MARKS: dict[str, dict[str, Any]] = {
    "NTK": {"marker": "^", "ls": "--", "lw": 1.1},
    "last": {"marker": "v", "ls": ":", "lw": 1.1},
}
_HOLLOW: dict[str, Any] = {"mfc": "white", "ls": "none"}
_AVERAGED: dict[str, Any] = {"marker": "x", "ls": "none", "ms": 4}
_ZERO: dict[str, Any] = {"color": "gray", "lw": 0.8, "ls": (0, (1, 3))}
_THRESHOLD: dict[str, Any] = {"color": "black", "lw": 1.1, "ls": "--"}


def plot(config: Config, results: Results) -> Figure:
    fig = figure(7.6, 4.4)
    axes = fig.subplots(1, len(config.panels), sharey=True, squeeze=False)[0]
    every = [Curves(config, panel, results) for panel in config.panels]
    for ax, curves, letter in zip(axes, every, "ab", strict=False):
        _plot_panel(ax, curves)
        ax.set_title(f"({letter}) {curves.panel.mode} layers trained, N = {curves.panel.task.n}")
        ax.set_xlabel("width m")
    axes[0].set_ylabel("test error (sum over outputs)")
    drawn = [c.along(method) * c.unit for c in every for method in c.panel.networks]
    drawn += [np.mean(c.limit(method)) * c.unit for c in every for method in LIMITS]
    top = max(c.energy * c.unit for c in every)  # predicting zero
    heights = [top, *(c.unit for c in every), *np.minimum(np.concatenate(drawn, axis=None), top)]
    axes[0].set_ylim(spanning(heights, 0.7, 1.4, otherwise=(0.01, 10.0)))
    round_ticks(axes[0])
    task, start = config.panels[0].task, ", start by fan-in" if config.fan_in else ""
    fig.suptitle(
        rf"$y = F + {task.alpha:g}\,G(F)$ on $\{{\pm1\}}^{{{task.inputs}}}$, "
        f"{task.inputs // 2} outputs, {config.epochs} epochs, {config.seeds} seeds{start}",
        fontsize=10,
    )
    _legend(fig, config)
    return fig


def _plot_panel(ax: Axes, curves: Curves) -> None:
    panel, unit = curves.panel, curves.unit
    for method in panel.networks:
        color = _COLORS[method.partition("(")[0]]
        errors = curves.along(method) * unit
        band(ax, panel.widths, errors.T, color=color, marker="o", ls="-", zorder=4)
    end = 2.2 * max((*panel.widths, *panel.kernel_widths))
    _plot_kernels(ax, curves, end)
    ax.axhline(unit, **_THRESHOLD, zorder=3)
    certified = unit * (1 - float(np.mean(curves.captured)))
    ax.axhspan(1e-9, certified, color="black", alpha=0.05, lw=0, zorder=0)
    ax.axhline(curves.energy * unit, **_ZERO, zorder=1)
    ax.set(xscale="log", yscale="log")
    ticks = sorted({*panel.widths, *panel.kernel_widths})
    ax.set_xticks([*ticks, end], [*map(str, ticks), r"$\infty$"])
    ax.minorticks_off()
    if len(ticks) > 5:
        ax.tick_params(axis="x", labelsize=7.5)


def _plot_kernels(ax: Axes, curves: Curves, end: float) -> None:
    panel, unit = curves.panel, curves.unit
    for method in KERNELS:
        layers, mode = parts(method)
        style: dict[str, Any] = {"color": _COLORS[layers]} | _MARKS[mode]
        # Side by side, since many coincide.
        beside = (end / min(panel.widths)) ** _BESIDE[layers]
        places = np.array(panel.kernel_widths) * beside
        if panel.sgd_kernels:
            ax.plot(places, curves.along(method).mean(axis=1) * unit, **style)
        ax.plot(places, curves.exact(method).mean(axis=1) * unit, **(style | _HOLLOW))
        if method in TANGENT:
            averaged = curves.along(method, solver="ridge").mean(axis=1) * unit
            ax.plot(places, averaged, **(style | _AVERAGED))
        if method in LIMITS:
            ax.plot([end * beside], [np.mean(curves.limit(method)) * unit], **(style | _HOLLOW))


def _legend(fig: Figure, config: Config) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], color=_COLORS[layers], ls="-", marker="o", label=layers)
        for layers in NETWORKS
    ]
    gray: dict[str, Any] = {"color": "gray"}
    said = {"NTK": "linearised (NTK)", "last": "last layer"}
    trained = any(panel.sgd_kernels for panel in config.panels)
    for mode, style in _MARKS.items():
        if trained:
            handles.append(Line2D([], [], **gray, **style, label=f"{said[mode]}, SGD"))
        handles.append(Line2D([], [], **gray, **style | _HOLLOW, label=f"{said[mode]}, exact"))
    handles.append(Line2D([], [], **gray, **_AVERAGED, label="NTK averaged over outputs, exact"))
    handles += [
        Line2D([], [], **_THRESHOLD, label=r"only $F$ learnt, $k\alpha^2$"),
        Patch(color="black", alpha=0.08, lw=0, label="out of reach of dot-product kernels"),
        Line2D([], [], **_ZERO, label="predicting zero"),
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=4, fontsize=8)
