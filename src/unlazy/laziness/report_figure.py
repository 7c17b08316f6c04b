# SPDX-License-Identifier: Apache-2.0
"""The report on a model as a figure: one panel per measurement."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.core.drawing import COLORS, figure, style
from unlazy.laziness.measurements.twins import TEST

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from unlazy.laziness.model_report import Report

_MOST_BARS = 24  # layers that have room for their names
_WIDTH = 3.7  # inches of a panel


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
        fig = figure(_WIDTH * columns, 3.0 * rows)
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, panels, strict=False):
            panel(report, ax)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
        fig.suptitle(report.verdict.lazy.split(":")[0], fontsize=12)
    return fig


def _taylor(report: "Report", ax: "Axes") -> None:
    errors = np.array(report.taylor.errors)
    orders = np.arange(len(errors))
    ax.axhline(0.1, color="#888888", ls=":", lw=1)
    ax.plot(orders, np.maximum(errors, 1e-8), color=COLORS[0], marker="o", ls="-")
    ax.set(yscale="log", xlabel="order of the Taylor model", title="what the Taylor model misses")
    ax.set_xticks(orders)
    ax.set_ylabel("error / change of the outputs")


def _drift(report: "Report", ax: "Axes") -> None:
    drift = report.drift
    names = ["all", *drift.layers]
    found = [drift.whole, *drift.layers.values()]
    _bars(ax, names, {"plain": [d.turned for d in found], "centred": [d.centred for d in found]})
    ax.set_title("kernel: 1 - cosine with the start")


def _movement(report: "Report", ax: "Axes") -> None:
    layers = report.movement.layers
    names = ["all", *(layer.name for layer in layers)]
    values = [report.movement.relative, *(layer.relative for layer in layers)]
    _bars(ax, names, {"movement": values})
    ax.set_title("movement / norm at the start")


def _flips(report: "Report", ax: "Axes") -> None:
    assert report.flips is not None
    _bars(ax, list(report.flips.layers), {"flipped": list(report.flips.layers.values())})
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
    """Horizontal bars, the first on top; names are left out where there is no room for them."""
    places = np.arange(len(names))
    height = 0.8 / len(groups)
    for k, (label, values) in enumerate(groups.items()):
        shown: Any = [value if math.isfinite(value) else 0.0 for value in values]
        ax.barh(
            places + (k - (len(groups) - 1) / 2) * height,
            shown,
            height,
            color=COLORS[k],
            label=label,
        )
    ax.set_yticks(
        places,
        [_short(name) for name in names] if len(names) <= _MOST_BARS else ["" for _ in names],
    )
    ax.invert_yaxis()
    ax.grid(visible=False, axis="y")
    if len(groups) > 1:
        ax.legend()


def _short(name: str, most: int = 28) -> str:
    return name if len(name) <= most else f"...{name[3 - most :]}"
