# SPDX-License-Identifier: Apache-2.0
"""The report on a model as a figure: one panel per measurement."""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.core.drawing import COLORS, figure, style
from unlazy.laziness.measurements.twins import TEST
from unlazy.laziness.verdicts import CLOSE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.laziness.model_report import Report

_MOST_NAMES = 20  # that have room beside the bars
_FEWEST_BARS = 5  # fewer are drawn no thicker
_WIDTH, _HEIGHT = 3.3, 2.6  # inches of a panel


def report_figure(report: "Report") -> "Figure":
    """Draw every measurement of a report that has one."""
    panels = [_taylor, _drift, _movement]
    panels += [_flips] if report.flips is not None else []
    panels += [_twins] if report.twins is not None else []
    if report.prediction is not None and len(report.prediction.steps):
        panels.append(_prediction)
    columns = 3 if len(panels) > 4 else 2
    rows = math.ceil(len(panels) / columns)
    with style():
        fig = figure(_WIDTH * columns, _HEIGHT * rows)
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, panels, strict=False):
            panel(report, ax)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        fig.suptitle(f"Verdict: {report.verdict.kind}", fontsize=12)
    return fig


def _taylor(report: "Report", ax: "Axes") -> None:
    errors = np.array(report.taylor.errors)
    orders = np.arange(len(errors))
    ax.axhline(CLOSE, color="#888888", ls=":", lw=1)
    ax.text(
        len(errors) - 1,
        CLOSE,
        f"lazy: below {CLOSE:g} at order 1",
        ha="right",
        va="bottom",
        fontsize=8,
    )
    ax.plot(orders, np.maximum(errors, 1e-8), color=COLORS[0], marker="o", ls="-")
    ax.set(yscale="log", xlabel="order of the Taylor model", title="what the Taylor model misses")
    ax.set_xticks(orders)
    ax.set_ylabel("error / change of the outputs")


def _drift(report: "Report", ax: "Axes") -> None:
    drift = report.drift
    names = ["all", *_short(drift.layers, report)]
    found = [drift.whole, *drift.layers.values()]
    _bars(ax, names, {"plain": [d.turned for d in found], "centred": [d.centred for d in found]})
    ax.set_title("kernel: 1 - cosine with the start")


def _movement(report: "Report", ax: "Axes") -> None:
    layers = report.movement.layers
    names = ["all", *_short((layer.name for layer in layers), report)]
    values = [report.movement.relative, *(layer.relative for layer in layers)]
    _bars(ax, names, {"movement": values})
    ax.set_title("movement / norm at the start")


def _flips(report: "Report", ax: "Axes") -> None:
    assert report.flips is not None
    names = ["all", *_short(report.flips.layers, report)]
    _bars(ax, names, {"flipped": [report.flips.share, *report.flips.layers.values()]})
    ax.set_title("ReLUs that switched")


def _twins(report: "Report", ax: "Axes") -> None:
    assert report.twins is not None
    scores = report.twins.scores
    is_class = not math.isnan(scores[0].accuracy)
    tested = any(score.data == TEST for score in scores)
    chosen = [score for score in scores if score.data == TEST or not tested]
    names = [score.model for score in chosen]
    values = [score.accuracy if is_class else score.loss for score in chosen]
    _bars(ax, names, {"accuracy" if is_class else "loss": values})
    what = "accuracy" if is_class else "loss"
    ax.set_title(f"{what} on {TEST}" if tested else f"{what}; of kernels: rows left out")


def _prediction(report: "Report", ax: "Axes") -> None:
    found = report.prediction
    assert found is not None
    ax.plot(found.steps, found.recorded, color=COLORS[0], ls="-", label="recorded")
    ax.plot(found.steps, found.predicted, color=COLORS[1], ls="--", label="kernel of the start")
    ax.set(xscale="log", yscale="log", xlabel="step", title="loss")
    ax.legend()


def _bars(ax: "Axes", names: list[str], groups: dict[str, list[float]]) -> None:
    """Horizontal bars, the first on top, with their values; of many, every few have a name."""
    places = np.arange(len(names))
    height = 0.8 / len(groups)
    for k, (label, values) in enumerate(groups.items()):
        shown: Any = [value if math.isfinite(value) else 0.0 for value in values]
        middle = places + (k - (len(groups) - 1) / 2) * height
        bars = ax.barh(middle, shown, height, color=COLORS[k], label=label)
        if len(names) <= _MOST_NAMES / len(groups):
            ax.bar_label(bars, [f" {value:.2g}" for value in values], fontsize=7.5)
    every = math.ceil(len(names) / _MOST_NAMES)
    ax.set_yticks(places[::every], names[::every])
    ax.set_ylim(max(len(names), _FEWEST_BARS) - 0.5, -0.5)
    ax.margins(x=0.15)
    ax.grid(visible=False, axis="y")
    if len(groups) > 1:
        ax.legend()


def _short(names: Iterable[str], report: "Report", most: int = 28) -> list[str]:
    """The names of layers without what they have in common, cut on the left where they are long."""
    short = [name.replace(report.prefix, "") if report.prefix else name for name in names]
    return [name if len(name) <= most else f"...{name[3 - most :]}" for name in short]
