# SPDX-License-Identifier: Apache-2.0
"""The figure of a report: eigenvalues, labels on them, and what each row costs."""

from typing import TYPE_CHECKING

import numpy as np

from unlazy.core.drawing import COLORS, style
from unlazy.core.entries import entry
from unlazy.laziness.report import LabelReport

if TYPE_CHECKING:
    import matplotlib.figure


@entry
def plot_report(report: LabelReport) -> "matplotlib.figure.Figure":
    """Left: the spectrum and where the labels lie on it. Right: the cost of each row, sorted."""
    from matplotlib.figure import Figure

    with style():
        fig = Figure(figsize=(7.2, 3.0))
        left, right = fig.subplots(1, 2)
        index = np.arange(1, report.n + 1)
        left.plot(index, report.eigenvalues, color="black", ls="-", label="eigenvalue")
        left.plot(
            index,
            np.maximum(report.energies * report.n, 1e-8),
            color=COLORS[0],
            marker="o",
            ls="none",
            ms=2.5,
            alpha=0.6,
            label="energy of the labels (1 if spread evenly)",
        )
        left.set(xscale="log", yscale="log", xlabel="index", title="spectrum and labels on it")
        left.legend(loc="lower left")
        finite = np.sort(report.costs[np.isfinite(report.costs)])[::-1]
        right.plot(np.arange(1, len(finite) + 1), finite, color=COLORS[1], ls="-")
        right.set(xscale="log", xlabel="row, the costliest first", ylabel="share of y' H^-1 y")
        right.set_title("what each row costs")
    return fig
