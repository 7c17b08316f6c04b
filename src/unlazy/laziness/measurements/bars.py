# SPDX-License-Identifier: Apache-2.0
"""A measurement of the layers of a model as horizontal bars."""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes
from unlazy.laziness.measurements.sections import common_prefix

MOST_BARS = 16  # of layers; the tables have the others
_FEWEST_BARS = 5  # fewer are drawn no thicker
_VALUE, _LEGEND = 0.085, 0.35  # inches that the text of a bar and a legend take


def draw_bars(ax: Axes, names: list[str], groups: dict[str, list[float]]) -> None:
    """Horizontal bars, the first on top, with their values where there is room.

    Of many, the first (that of all layers) and the largest are drawn, in their order.
    """
    kept = _largest(list(groups.values()))
    if len(kept) < len(names):
        ax.set_ylabel(f"the {len(kept) - 1} largest of {len(names) - 1}")
    height, inches = 0.8 / len(groups), _inches(ax)
    has_room = inches / len(kept) * height >= _VALUE
    for k, (label, values) in enumerate(groups.items()):
        found = [values[i] for i in kept]
        shown: Any = [value if math.isfinite(value) else 0.0 for value in found]
        middle = np.arange(len(kept)) + (k - (len(groups) - 1) / 2) * height
        bars = ax.barh(middle, shown, height, color=COLORS[k], label=label)
        if has_room:
            ax.bar_label(bars, [f" {value:.2g}" for value in found], fontsize=7.5)
    ax.set_yticks(np.arange(len(kept)), [names[i] for i in kept])
    rows = max(len(kept), _FEWEST_BARS)
    if len(groups) > 1:  # below the bars, on which it would lie
        rows += rows * _LEGEND / max(inches - _LEGEND, _LEGEND)
        ax.legend(loc="lower right", ncols=len(groups))
    ax.set_ylim(rows - 0.5, -0.5)
    ax.margins(x=0.15)
    ax.grid(visible=False, axis="y")


def _largest(groups: list[list[float]]) -> list[int]:
    """The places of the first bar and of the largest others."""
    sizes = np.nan_to_num(np.max(groups, axis=0), nan=-np.inf)
    others = 1 + np.argsort(-sizes[1:], kind="stable")[:MOST_BARS]
    return [0, *sorted(map(int, others))]


def _inches(ax: Axes) -> float:
    """The height of the axes, about: the layout is made when all is drawn."""
    return float(ax.get_window_extent().height / ax.figure.dpi)


def short_names(names: Iterable[str], most: int = 26) -> list[str]:
    """The names of layers without what they have in common, cut on the left where they are long."""
    names = list(names)
    prefix = common_prefix(
        name.rpartition(" ")[2] for name in names
    )  # "relu 1 after params/body" too
    short = [name.replace(prefix, "") if prefix else name for name in names]
    return [name if len(name) <= most else f"...{_end_of(name, most - 3)}" for name in short]


def _end_of(name: str, most: int) -> str:
    """The last characters of a name, from the beginning of a part on where there is one."""
    end = name[-most:]
    part = re.search(r"[/ ](?=.)", end[:-1])
    return end if part is None else end[part.end() :]
