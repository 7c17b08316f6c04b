# SPDX-License-Identifier: Apache-2.0
"""A measurement of the layers of a model as horizontal bars."""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from unlazy.core.drawing import COLORS, Axes
from unlazy.laziness.measurements.sections import common_prefix

_MOST_NAMES = 20  # that have room beside the bars
_FEWEST_BARS = 5  # fewer are drawn no thicker


def draw_bars(ax: Axes, names: list[str], groups: dict[str, list[float]]) -> None:
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


def short_names(names: Iterable[str], most: int = 28) -> list[str]:
    """The names of layers without what they have in common, cut on the left where they are long."""
    names = list(names)
    prefix = common_prefix(
        name.rpartition(" ")[2] for name in names
    )  # "relu 1 after params/body" too
    short = [name.replace(prefix, "") if prefix else name for name in names]
    return [name if len(name) <= most else f"...{name[3 - most :]}" for name in short]
