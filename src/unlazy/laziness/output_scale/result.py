# SPDX-License-Identifier: Apache-2.0
"""What the sweep of output scales returns: a table, a plot and a verdict."""

import math
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float

from unlazy.core.drawing import COLORS, LINES, Axes
from unlazy.core.entries import entry
from unlazy.core.json_numbers import json_number
from unlazy.core.panels import Figure, SubFigure, canvas, panel
from unlazy.laziness.output_scale.measures import Measured
from unlazy.laziness.tables import in_columns
from unlazy.train import GridResult

LAZY_ERROR = 0.1
"""A linearisation error below this counts as lazy."""

_COLUMNS = {
    "learning_rate": "rate",
    "train_loss": "train loss",
    "test_loss": "test loss",
    "train_accuracy": "train acc.",
    "test_accuracy": "test acc.",
    "movement": "movement",
    "kernel_distance": "kernel dist.",
    "centred_kernel_distance": "centred",
    "linearisation_error": "lin. error",
}


class OutputScaleSweep(eqx.Module):
    r"""One network trained as $(f - f_0)/\gamma$ at several output scales, each at its best rate.

    Numbers are nan where every rate diverged, and where there is no test set or no classes.

    Source: arXiv:1812.07956 ($\alpha = 1/\gamma$) and arXiv:2410.04642.
    """

    gammas: Float[np.ndarray, " g"]  # increasing: lazy first
    learning_rate: Float[np.ndarray, " g"]  # the best one
    train_loss: Float[np.ndarray, " g"]
    test_loss: Float[np.ndarray, " g"]
    train_accuracy: Float[np.ndarray, " g"]
    test_accuracy: Float[np.ndarray, " g"]
    movement: Float[np.ndarray, " g"]  # norm of the change of the weights / norm at the start
    kernel_distance: Float[np.ndarray, " g"]  # 1 - cosine of the kernels at start and end
    centred_kernel_distance: Float[np.ndarray, " g"]  # the same with the row means taken out
    linearisation_error: Float[np.ndarray, " g"]
    lazy_below: float  # the largest of the scales up to which all are lazy; nan if none is
    best_gamma: float  # of the smallest test loss, or train loss without a test set
    verdict: str
    notes: tuple[str, ...]
    grid: GridResult  # all lanes, output scales in the place of seeds

    def __repr__(self) -> str:
        """The table: one row per output scale."""
        shown = {n: head for n, head in _COLUMNS.items() if not np.isnan(getattr(self, n)).all()}
        rows = [["gamma", *shown.values()]]
        for i, gamma in enumerate(self.gammas):
            rows.append([f"{gamma:.3g}", *(f"{getattr(self, name)[i]:.3g}" for name in shown)])
        head = f"Output scales: (f - f_0)/gamma after {self.grid.epochs} epochs"
        notes = (f"Note: {note}" for note in self.notes)
        return "\n".join(
            [f"{head}, each at its best rate:", *in_columns(rows), self.verdict, *notes]
        )

    @entry
    def plot(self, figure: Figure | SubFigure | None = None) -> Figure:
        """Draw how lazy training is, and how good, against the output scale.

        Args:
            figure: an empty Figure or SubFigure to draw on; None for a new one.

        Returns:
            That figure. A report is no single panel: `plot_laziness(ax)` and `plot_quality(ax)`
            draw one each.
        """
        with canvas(figure, 7.6, 3.2) as fig:
            left, right = fig.subplots(1, 2)
            self.plot_laziness(left)
            self.plot_quality(right)
        return fig

    @entry
    def plot_laziness(self, ax: Axes | None = None) -> Axes:
        """Draw how far training is from lazy, against the output scale.

        Args:
            ax: where to draw; None for a new figure, which is `plot_laziness().figure`.
        """
        lazy = ("linearisation_error", "movement", "kernel_distance", "centred_kernel_distance")
        with panel(ax) as ax:
            for k, name in enumerate(lazy):
                self._draw(ax, name, k)
            ax.axhline(LAZY_ERROR, color="black", lw=0.6, ls="-", label="lazy: error below")
            ax.set(xscale="log", yscale="log", xlabel="gamma", title="how far from lazy")
            ax.set_ylabel("relative to the start")
            ax.legend()
        return ax

    @entry
    def plot_quality(self, ax: Axes | None = None) -> Axes:
        """Draw the losses against the output scale.

        Args:
            ax: where to draw; None for a new figure, which is `plot_quality().figure`.
        """
        with panel(ax) as ax:
            for k, name in enumerate(("train_loss", "test_loss")):
                self._draw(ax, name, k)
            ax.set(xscale="log", yscale="log", xlabel="gamma", ylabel="loss", title="how good")
            ax.legend()
        return ax

    def to_dict(self) -> dict[str, Any]:
        """The result for JSON; numbers that JSON cannot hold are strings that `float` reads."""
        columns = ("gammas", *_COLUMNS)
        return {
            **{name: [json_number(float(v)) for v in getattr(self, name)] for name in columns},
            "lazy_below": json_number(self.lazy_below),
            "best_gamma": json_number(self.best_gamma),
            "verdict": self.verdict,
            "notes": list(self.notes),
        }

    def _draw(self, ax: Axes, name: str, k: int) -> None:
        values = getattr(self, name)
        if np.isnan(values).all():
            return
        words = name.replace("_", " ")
        ax.plot(self.gammas, values, color=COLORS[k], ls=LINES[k], marker="o", ms=3, label=words)


def sweep_result(
    gammas: Float[np.ndarray, " g"], measured: list[Measured], grid: GridResult
) -> OutputScaleSweep:
    """The result, with its verdict."""
    columns = {name: np.array([getattr(one, name) for one in measured]) for name in _COLUMNS}
    errors = columns["linearisation_error"]
    is_lazy = np.cumprod(errors < LAZY_ERROR).astype(bool)  # nan is not
    goal = "train_loss" if np.isnan(columns["test_loss"]).all() else "test_loss"
    losses = columns[goal]
    lazy_below = float(gammas[is_lazy][-1]) if is_lazy.any() else math.nan
    best = float(gammas[np.nanargmin(losses)]) if np.isfinite(losses).any() else math.nan
    where = [
        "Lazy at every scale tried."
        if is_lazy.all()
        else f"Lazy up to gamma = {lazy_below:.3g}, not at {gammas[~is_lazy][0]:.3g}."
        if is_lazy.any()
        else f"Lazy at no scale tried, the smallest being {gammas[0]:.3g}."
    ]
    if not math.isnan(best):
        level = np.nanmin(losses)
        where.append(f"Best at gamma = {best:.3g}, with a {goal.replace('_', ' ')} of {level:.3g}.")
    return OutputScaleSweep(
        gammas=gammas,
        **columns,
        lazy_below=lazy_below,
        best_gamma=best,
        verdict=" ".join(["Verdict:", *where]),
        notes=tuple(_notes(gammas, columns["learning_rate"], best, grid)),
        grid=grid,
    )


def _notes(
    gammas: Float[np.ndarray, " g"],
    rates: Float[np.ndarray, " g"],
    best: float,
    grid: GridResult,
) -> list[str]:
    lost = [f"{gamma:.3g}" for gamma, rate in zip(gammas, rates, strict=True) if np.isnan(rate)]
    notes = [f"every learning rate diverged at gamma = {', '.join(lost)}."] if lost else []
    some = int(grid.diverged.sum())
    if some:
        notes.append(f"{some} of {grid.lanes} runs diverged.")
    for side in ("low", "high"):
        at = [
            f"{gamma:.3g}"
            for i, (gamma, rate) in enumerate(zip(gammas, rates, strict=True))
            if not np.isnan(rate) and grid.edge("train", replicate=i).get("learning_rate") == side
        ]
        if at:
            where = "every gamma" if len(at) == len(gammas) else f"gamma = {', '.join(at)}"
            notes.append(f"the best rate is the {side} end of those tried at {where}.")
    if best in (gammas[0], gammas[-1]):
        notes.append("the best scale is an end of those tried.")
    return notes
