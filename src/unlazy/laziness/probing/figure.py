# SPDX-License-Identifier: Apache-2.0
"""The records of a probe as a figure: one panel per measurement, over the steps."""

import math
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from unlazy.core.drawing import LINES, hues
from unlazy.core.panels import canvas, next_look
from unlazy.laziness.measurements.taylor_shares import CLOSE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

    from unlazy.laziness.probing.history import ProbeHistory

_MOST_NAMED = 6  # layers that have room for their names
_WIDTH = 3.9  # inches of a panel
_LEAST = 1e-8  # of a logarithmic axis: float32 leaves that of a distance that is zero


def history_figure(history: "ProbeHistory", given: "Figure | SubFigure | None" = None) -> "Figure":
    """Draw every measurement that a history has."""
    panels = [_scores] if _has(history, "loss") else []
    panels += [_errors, _kernel]
    panels += [_alignment] if _has(history, "alignment") else []
    panels += [partial(_layers, column="movement", title="movement / norm at the start")]
    flips = partial(_layers, column="flips", title="share of ReLUs that switched")
    panels += [flips] if _has(history, "flips") else []
    columns = 3 if len(panels) > 4 else 2
    rows = math.ceil(len(panels) / columns)
    with canvas(given, _WIDTH * columns, 2.9 * rows) as fig:
        axes = fig.subplots(rows, columns, squeeze=False).ravel()
        for ax, panel in zip(axes, panels, strict=False):
            panel(history, ax)
            ax.set_xlabel("step")
            ax.locator_params(axis="x", integer=True)
        for ax in axes[len(panels) :]:
            ax.set_axis_off()
    return fig


def _has(history: "ProbeHistory", column: str) -> bool:
    return bool(np.any(np.isfinite(history[column])))


def _scores(history: "ProbeHistory", ax: "Axes") -> None:
    what = "accuracy" if _has(history, "accuracy") else "loss"
    _curve(ax, history, what, "model")
    _curve(ax, history, f"linear_{what}", "its linear model")
    ax.set_title(f"{what} on the rows of the probe")
    ax.legend()


def _errors(history: "ProbeHistory", ax: "Axes") -> None:
    orders = [name for name in history.columns if name.startswith("error_")]
    for k, name in enumerate(orders, start=1):
        _curve(ax, history, name, f"order {k}")
    ax.axhline(CLOSE, color="#888888", ls=":", lw=1)
    ax.text(0.01, CLOSE, " lazy below", color="#666666", fontsize=7.5, va="top",
            transform=ax.get_yaxis_transform())  # fmt: skip
    ax.set_title("what the Taylor model misses")
    ax.set_ylabel("error / change of the outputs")
    ax.set_ylim(0, max(1.0, *ax.get_ylim()))
    if len(orders) > 1:
        ax.legend()


def _kernel(history: "ProbeHistory", ax: "Axes") -> None:
    _curve(ax, history, "kernel_turned", "from the start", log=True)
    _curve(ax, history, "kernel_centred", "from the start, centred", log=True)
    _curve(ax, history, "velocity", "from the last call, centred", log=True)
    ax.set_title("kernel: 1 - cosine")
    ax.set_yscale("log")
    ax.legend()


def _alignment(history: "ProbeHistory", ax: "Axes") -> None:
    _curve(ax, history, "alignment", "")
    ax.set_title("kernel: alignment with the labels")


def _layers(history: "ProbeHistory", ax: "Axes", *, column: str, title: str) -> None:
    """All of it in black, and every layer; names only where there is room for them."""
    steps = history["step"]
    layers = [name for name in history.columns if name.startswith(f"{column}/")]
    for k, (name, color) in enumerate(zip(layers, hues(len(layers)), strict=True)):
        ls: Any = LINES[k % len(LINES)]
        label = _short(name.removeprefix(f"{column}/")) if len(layers) <= _MOST_NAMED else None
        ax.plot(steps, history[name], color=color, ls=ls, lw=1.2, label=label)
    ax.plot(steps, history[column], color="black", ls="-", marker="o", ms=3, label="all")
    ax.set_title(title)
    ax.set_ylim(bottom=0)
    ax.legend()


def _curve(
    ax: "Axes", history: "ProbeHistory", column: str, label: str, *, log: bool = False
) -> None:
    values = history[column]
    values = np.where(values > _LEAST, values, np.nan) if log else values
    ax.plot(history["step"], values, marker="o", ms=3, label=label, **next_look(ax))


def _short(name: str, most: int = 24) -> str:
    name = name.replace("params/", "")  # Flax's name for all that is trained
    return name if len(name) <= most else f"...{name[3 - most :]}"
