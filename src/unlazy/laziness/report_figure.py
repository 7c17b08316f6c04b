# SPDX-License-Identifier: Apache-2.0
"""The report on a model as a figure: one panel per measurement."""

import math
from typing import TYPE_CHECKING, Any

from unlazy.core.panels import canvas
from unlazy.laziness.measurements.bars import MOST_BARS

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

    from unlazy.laziness.model_report import Report

_WIDTH, _HEIGHT = 3.9, 2.6  # inches of a panel, which is higher where it has many bars
_PER_BAR, _AROUND = 0.27, 0.9


def report_figure(report: "Report", given: "Figure | SubFigure | None" = None) -> "Figure":
    """Draw every measurement of a report that has one."""
    panels: list[Any] = [report.taylor.plot_errors, report.drift.plot, report.movement.plot]
    panels += [part.plot for part in (report.flips, report.twins) if part is not None]
    if report.prediction is not None and len(report.prediction.steps):
        panels.append(report.prediction.plot)
    columns = 3 if len(panels) > 4 else 2
    rows = math.ceil(len(panels) / columns)
    bars = 1 + min(len(report.movement.layers), MOST_BARS)
    height = max(_HEIGHT, _AROUND + _PER_BAR * bars)
    with canvas(given, _WIDTH * columns, height * rows) as fig:
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for ax, draw in zip(axes, panels, strict=False):
            draw(ax)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        fig.suptitle(f"Verdict: {report.verdict.kind}", fontsize=12)
    return fig
