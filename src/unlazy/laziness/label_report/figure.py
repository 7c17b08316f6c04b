# SPDX-License-Identifier: Apache-2.0
"""The report on a data set as a figure."""

import numpy as np

from unlazy.core.drawing import COLORS, Axes
from unlazy.core.entries import entry
from unlazy.core.panels import Figure, SubFigure, canvas
from unlazy.dynamics.curves import draw_spectrum as draw_pairs
from unlazy.laziness.label_report.report import LabelReport


@entry
def plot_report(report: LabelReport, figure: Figure | SubFigure | None = None) -> Figure:
    """Draw the complexity, the spectrum with the labels on it, and the score of each row."""
    return draw(report, figure)


def draw(report: LabelReport, given: Figure | SubFigure | None = None) -> Figure:
    """The three panels."""
    with canvas(given, 9.6, 3.1) as fig:
        left, middle, right = fig.subplots(1, 3, width_ratios=[0.7, 1, 1])
        draw_complexity(left, report)
        draw_spectrum(middle, report)
        draw_scores(right, report)
    return fig


def draw_complexity(ax: Axes, report: LabelReport) -> None:
    """Two bars."""
    values = [report.label_complexity, report.random_level]
    bars = ax.bar(["these labels", "in random\norder"], values, color=[COLORS[0], "#bbbbbb"])
    ax.bar_label(bars, [f"{value:.3g}" for value in values], padding=2, fontsize=8.5)
    ax.margins(y=0.15)
    ax.grid(False, axis="x")
    ax.set(title=f"complexity, ratio {report.ratio:.2f}", ylabel="sqrt(2 y' H^-1 y / n)")


def draw_spectrum(ax: Axes, report: LabelReport) -> None:
    """Eigenvalues and labels over the eigenvectors."""
    draw_pairs(ax, report.eigenvalues, report.energies)


def draw_scores(ax: Axes, report: LabelReport) -> None:
    """Sorted scores, suspects thick."""
    scores = np.sort(report.scores)[::-1]
    place = np.arange(1, len(scores) + 1)
    count = len(report.suspects())
    ax.plot(place, scores, color=COLORS[0], ls="-")
    ax.plot(place[:count], scores[:count], color=COLORS[1], ls="-", lw=3)
    ax.axhline(report.threshold, color="#888888", ls=":", lw=1)
    unit = "margin of another class" if report.classes else "left-out error / typical"
    ax.set(xscale="log", xlabel="row, the most suspect first", ylabel=unit)
    ax.set_title(f"{count} rows look mislabelled" if count != 1 else "1 row looks mislabelled")
