# SPDX-License-Identifier: Apache-2.0
"""The report on a data set as a figure."""

from typing import TYPE_CHECKING

import numpy as np

from unlazy.core.drawing import COLORS, figure, style
from unlazy.core.entries import entry
from unlazy.laziness.label_report.report import LabelReport

if TYPE_CHECKING:
    import matplotlib.figure
    from matplotlib.axes import Axes


@entry
def plot_report(report: LabelReport) -> "matplotlib.figure.Figure":
    """Draw the complexity, the spectrum with the labels on it, and the score of each row."""
    return draw(report)


def draw(report: LabelReport) -> "matplotlib.figure.Figure":
    """The three panels."""
    with style():
        fig = figure(9.6, 3.1)
        left, middle, right = fig.subplots(1, 3, width_ratios=[0.7, 1, 1])
        _draw_ratio(left, report)
        _draw_spectrum(middle, report)
        _draw_scores(right, report)
    return fig


def _draw_ratio(ax: "Axes", report: LabelReport) -> None:
    values = [report.label_complexity, report.random_level]
    bars = ax.bar(["these labels", "in random\norder"], values, color=[COLORS[0], "#bbbbbb"])
    ax.bar_label(bars, [f"{value:.3g}" for value in values], padding=2, fontsize=8.5)
    ax.margins(y=0.15)
    ax.grid(False, axis="x")
    ax.set(title=f"complexity, ratio {report.ratio:.2f}", ylabel="sqrt(2 y' H^-1 y / n)")


def _draw_spectrum(ax: "Axes", report: LabelReport) -> None:
    index = np.arange(1, len(report.eigenvalues) + 1)
    share = report.eigenvalues / report.eigenvalues[0]
    ax.plot(index, np.maximum(share, 1e-12), color="black", ls="-", label="eigenvalue / largest")
    still = 1 - np.cumsum(report.energies)
    ax.plot(
        index,
        np.clip(still, 1e-4, 1),
        color=COLORS[1],
        ls="--",
        label="share of the labels beyond",
    )
    ax.set(xscale="log", yscale="log", xlabel="eigenvector", title="spectrum and labels")
    ax.legend(loc="lower left")


def _draw_scores(ax: "Axes", report: LabelReport) -> None:
    scores = np.sort(report.scores)[::-1]
    place = np.arange(1, len(scores) + 1)
    count = len(report.suspects())
    ax.plot(place, scores, color=COLORS[0], ls="-")
    ax.plot(place[:count], scores[:count], color=COLORS[1], ls="-", lw=3)
    ax.axhline(report.threshold, color="#888888", ls=":", lw=1)
    unit = "margin of another class" if report.classes else "left-out error / typical"
    ax.set(xscale="log", xlabel="row, the most suspect first", ylabel=unit)
    ax.set_title(f"{count} rows look mislabelled" if count != 1 else "1 row looks mislabelled")
