# SPDX-License-Identifier: Apache-2.0
"""How many ReLUs switched between two points of a training."""

import equinox as eqx
import numpy as np
from jaxtyping import Bool

from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.panels import panel
from unlazy.laziness.measurements.bars import draw_bars, short_names
from unlazy.laziness.measurements.sections import Cell, Section

Units = dict[str, np.ndarray]
"""Per ReLU of a model, which of its units are active at each row."""


class Flips(eqx.Module):
    """Which share of the ReLUs is active at one end of a training and not at the other."""

    share: float  # over all units and samples
    layers: dict[str, float]
    active: dict[str, tuple[float, float]]  # shares of active units at the start and at the end

    @entry
    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the share of units that switched, for each ReLU of the model.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
        """
        with panel(ax) as ax:
            shares = {"flipped": [self.share, *self.layers.values()]}
            draw_bars(ax, ["all", *short_names(self.layers)], shares)
            ax.set(xlabel="share of units and rows", title="ReLUs that switched")
        return ax

    def section(self) -> Section:
        """The measurement as people read it."""
        rows: list[tuple[Cell, ...]] = [("all", self.share, None, None)]
        rows += [(name, share, *self.active[name]) for name, share in self.layers.items()]
        return Section(
            "Flipped activations",
            "which ReLUs switched on or off?",
            "share of units and samples with (z > 0) at the start unlike (z > 0) at the end",
            ("ReLU", "flipped", "active at start", "active at end"),
            tuple(rows),
        )


def flips(start: Units, end: Units) -> Flips | None:
    """Compare the active units; None for a model without a ReLU."""
    if not start:
        return None
    layers = {name: float(np.mean(start[name] != end[name])) for name in start}
    sizes = np.array([start[name].size for name in start], float)
    share = float(np.array(list(layers.values())) @ sizes / sizes.sum())
    return Flips(share, layers, {name: (_on(start[name]), _on(end[name])) for name in start})


def _on(units: Bool[np.ndarray, "n units"]) -> float:
    return float(np.mean(units))
