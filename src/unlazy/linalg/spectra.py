# SPDX-License-Identifier: Apache-2.0
"""Eigenvalues as a curve over their rank."""

import numpy as np
from jaxtyping import Float64

from unlazy.core.drawing import Axes
from unlazy.core.panels import log_if_positive, name_curves, next_look, panel


def draw_eigenvalues(
    ax: Axes | None,
    values: Float64[np.ndarray, " k"],
    errors: Float64[np.ndarray, " k"] | None,
    label: str | None,
) -> Axes:
    """The sizes of eigenvalues, largest first, on logarithmic axes; errors as a band."""
    rank, is_negative = np.arange(1, len(values) + 1), values < 0
    with panel(ax) as ax:
        look = next_look(ax)
        name = "eigenvalue" if label is None else label
        ax.plot(rank, np.where(is_negative, np.nan, values), marker="o", ms=3, label=name, **look)
        if errors is not None:
            low, high = np.maximum(values - errors, 0), values + errors
            ax.fill_between(rank, low, high, color=look["color"], alpha=0.2, lw=0)
        if is_negative.any():
            open_mark = {
                "marker": "o",
                "ms": 4,
                "mfc": "none",
                "color": look["color"],
                "ls": "none",
            }
            sizes = np.where(is_negative, -values, np.nan)
            ax.plot(rank, sizes, label=f"negative {name}, its size", **open_mark)
        log_if_positive(ax, "x", "y")
        ax.set(xlabel="rank", ylabel="eigenvalue")
        name_curves(ax)
    return ax
