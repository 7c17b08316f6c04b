# SPDX-License-Identifier: Apache-2.0
"""The drawing of the landscape figure from the stored tables."""

import itertools
import math

import numpy as np

from unlazy.core.drawing import COLORS, LINES, Axes, Figure, figure, hues
from unlazy.experiments import Results
from unlazy.papers.bai_lee2020.figures.landscape.claims import Width, widths_of
from unlazy.papers.bai_lee2020.figures.landscape.config import Config

_FLOOR = 1e-8  # on the logarithmic axis of the random starts


def plot(config: Config, results: Results) -> Figure:
    widths = widths_of(config, results)
    fig = figure(7.6, 5.8)
    (curves, ends), (curvature, starts) = fig.subplots(2, 2)
    _plot_curves(curves, widths)
    _plot_ends(ends, widths)
    _plot_curvature(curvature, widths)
    _plot_starts(starts, widths)
    for ax in (ends, curvature, starts):
        ax.set_xscale("log", base=2)
        ax.set_xticks([w.width for w in widths], [str(w.width) for w in widths])
        ax.minorticks_off()
        ax.set_xlim(widths[0].width / 1.6, widths[-1].width * 1.6)
        ax.set_xlabel("width m")
    return fig


def _plot_curves(ax: Axes, widths: list[Width]) -> None:
    lines = itertools.cycle(LINES)
    for w, color, line in zip(widths, hues(len(widths)), lines, strict=False):
        first = w.draws[0].arrays
        ax.plot(first["step"], first["loss"], color=color, ls=line, label=f"m = {w.width}")
    plain = widths[-1].draws[0].arrays
    last = max(w.draws[0].arrays["step"][-1] for w in widths)
    ax.plot(plain["plain_step"], plain["plain_loss"], color="black", lw=1, ls=(0, (1, 1)))
    ax.set_xlim(0, 1.02 * max(last, plain["plain_step"][-1]))
    end = (plain["plain_step"][-1], math.log(2))
    style = {"textcoords": "offset points", "ha": "right", "va": "top", "fontsize": 8.5}
    ax.annotate("plain descent: log 2", end, xytext=(0, -4), **style)
    ax.set(xlabel="step", ylabel=r"$L^Q_\lambda$", ylim=(0.1, 0.74))
    ax.set_title("perturbed descent from W = 0")
    ax.legend(loc="center right", bbox_to_anchor=(1, 0.66))


def _plot_ends(ax: Axes, widths: list[Width]) -> None:
    ax.axhline(math.log(2), color="black", lw=1, ls=(0, (1, 1)))
    at = (widths[-1].width * 1.5, math.log(2))
    ax.annotate("log 2", at, ha="right", va="bottom", fontsize=8.5)
    for label, values, color, marker, line in (
        ("bound BL-23", [w.of("bound") for w in widths], COLORS[1], "^", "--"),
        ("bound, best W*", [w.of("least_bound") for w in widths], COLORS[4], "v", "-."),
        ("best multiple of W*", [w.of("by_hand") for w in widths], COLORS[0], "s", ":"),
        ("perturbed descent", [w.ends for w in widths], COLORS[2], "o", "-"),
    ):
        _with_bars(ax, widths, values, label, color, marker, line)
    ax.set(ylabel=r"$L^Q_\lambda$ at the end", ylim=(0, 1.6))
    ax.set_title(f"the end, beside W* made by hand ({len(widths[0].draws)} draws)")
    ax.legend(loc="upper right", ncols=2, columnspacing=1.2)


def _plot_curvature(ax: Axes, widths: list[Width]) -> None:
    ax.axhline(0, color="black", lw=0.8, ls="-")
    start = [w.of("start_curvature") for w in widths]
    end = [w.runs("curvature", random=False).mean(axis=1) for w in widths]
    _with_bars(ax, widths, end, "at the end", COLORS[2], "o", "-")
    _with_bars(ax, widths, start, "at W = 0", COLORS[1], "^", "--")
    ax.set_yscale("symlog", linthresh=0.01)
    ax.set_yticks([-1, -0.1, -0.01, 0, 0.01, 0.1], ["-1", "-0.1", "-0.01", "0", "0.01", "0.1"])
    ax.set(ylabel=r"$\lambda_{\min} \sqrt{m}$", ylim=(-2, 0.2))
    ax.set_title("smallest curvature")
    ax.legend(loc="center left", bbox_to_anchor=(0, 0.36))


def _plot_starts(ax: Axes, widths: list[Width]) -> None:
    for w in widths:
        above = w.above.ravel()
        # Side by side in the order drawn, since many dots are the same.
        places = w.width * 1.25 ** np.linspace(-1, 1, above.size)
        trapped = w.trapped.ravel()
        for chosen, color, marker in ((~trapped, COLORS[0], "o"), (trapped, COLORS[1], "D")):
            values = np.maximum(above[chosen], _FLOOR)
            ax.plot(places[chosen], values, color=color, marker=marker, ls="none", ms=3.5)
        ax.annotate(f"{trapped.sum()}", (w.width, 0.35), ha="center", va="bottom", fontsize=8)
    count = f"another minimum (count of {widths[0].trapped.size} below)"
    ax.plot([], [], color=COLORS[1], marker="D", ls="none", ms=3.5, label=count)
    ax.plot([], [], color=COLORS[0], marker="o", ls="none", ms=3.5, label="the best value")
    ax.set_yscale("log")
    ax.set(ylabel="end less the best end", ylim=(_FLOOR / 2, 300))  # room for the legend
    ax.set_yticks(10.0 ** np.arange(-8, 1))
    ax.set_title("perturbed descent from random W")
    ax.legend(loc="upper right")


def _with_bars(ax, widths, values, label: str, color: str, marker: str, line: str):
    """Draw the means, with bars from the least to the greatest draw."""
    means = np.array([v.mean() for v in values])
    bars = np.array([(v.mean() - v.min(), v.max() - v.mean()) for v in values]).T
    places = [w.width for w in widths]
    style = {"color": color, "marker": marker, "ls": line, "capsize": 2}
    ax.errorbar(places, means, yerr=np.maximum(bars, 0), label=label, **style)
