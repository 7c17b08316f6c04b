# SPDX-License-Identifier: Apache-2.0
"""A training run as curves over its steps."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from unlazy.core.checks import check_name
from unlazy.core.drawing import Axes
from unlazy.core.panels import is_wide, name_curves, next_look, panel, readable_ticks

if TYPE_CHECKING:
    from unlazy.train.history import History


def draw_history(
    history: "History", ax: Axes | None, names: Sequence[str] | None, label: str | None
) -> Axes:
    """The loss and the records that are one number a row."""
    chosen = _chosen(history, names)
    with panel(ax) as ax:
        for name in chosen:
            values = history.loss if name == "loss" else history.records[name]
            shown = name if label is None else f"{label}: {name}"
            dot = "o" if len(values) == 1 else None
            ax.plot(history.steps, values, label=shown, marker=dot, **next_look(ax))
        if is_wide(np.concatenate([line.get_ydata() for line in ax.get_lines()])):
            ax.set_yscale("log")
            readable_ticks(ax)
        ax.set(xlabel="step", title=f"{history.outcome} at step {history.final_step}")
        ax.set_ylabel(chosen[0] if len(chosen) == 1 else "value")
        name_curves(ax)
    return ax


def mark_kicks(ax: Axes, steps: np.ndarray) -> None:
    """A short mark on the horizontal axis for each step at which a kick was given."""
    if len(steps):
        ax.plot(
            steps, np.zeros(len(steps)), transform=ax.get_xaxis_transform(), color="#444444",
            ls="none", marker="|", ms=12, clip_on=False, label="kick",
        )  # fmt: skip
        name_curves(ax)


def _chosen(history: "History", names: Sequence[str] | None) -> list[str]:
    curves = ["loss"] + [name for name, rows in history.records.items() if _is_curve(rows)]
    if names is None:
        return list(dict.fromkeys(curves))
    if isinstance(names, str) or not names:
        raise TypeError(f"`names` must be a list of names, one at least, got names={names!r}.")
    for name in names:
        check_name(name, curves, "names")
    return list(names)


def _is_curve(rows: np.ndarray) -> bool:
    return rows.ndim == 1 and rows.dtype.kind in "biuf"
