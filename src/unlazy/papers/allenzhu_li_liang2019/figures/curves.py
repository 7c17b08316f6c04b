# SPDX-License-Identifier: Apache-2.0
"""What the figures share: the best lane of each seed, and how a curve over seeds is drawn."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from unlazy.papers.shared.grids.ticks import round_ticks
from unlazy.papers.shared.grids.tuning import Table, best_rows

if TYPE_CHECKING:
    import matplotlib.axes


def best_values(table: Table, column: str, *, by: str, seeds: int) -> Float[np.ndarray, " seeds"]:
    """A column at each seed's best lane by the set `by`; inf for a seed without one."""
    best = best_rows(table, by)
    return np.array([table[column][best[s]] if s in best else np.inf for s in range(seeds)])


def band(
    ax: "matplotlib.axes.Axes",
    places: Sequence[int],
    values: Float[np.ndarray, "places seeds"],
    **style: Any,
) -> None:
    """Draw the mean over seeds, as in the claims, and all seeds as a band."""
    ax.plot(places, values.mean(axis=1), **style)
    low, high = values.min(axis=1), values.max(axis=1)
    ax.fill_between(places, low, high, color=style["color"], alpha=0.15, lw=0)


def log_axes(ax: "matplotlib.axes.Axes", places: Sequence[int]) -> None:
    """Make both axes logarithmic, with ticks at the places and at round numbers."""
    ax.set(xscale="log", yscale="log")
    ax.set_xticks(places, [str(place) for place in places])
    ax.minorticks_off()
    round_ticks(ax)
