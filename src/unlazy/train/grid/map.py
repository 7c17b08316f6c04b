# SPDX-License-Identifier: Apache-2.0
"""A grid of training runs as a map of its final values, or as curves over its learning rates."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from unlazy.core.drawing import Axes
from unlazy.core.panels import is_wide, name_curves, next_look, panel, readable_ticks

if TYPE_CHECKING:
    from unlazy.train.grid.result import GridResult

_MOST_NUMBERS = 64  # cells that have room for their value
_DIVERGED = "#b0b0b0"  # the colour of a cell without a finite value


def draw_grid(grid: "GridResult", ax: Axes | None, by: str, label: str | None) -> Axes:
    """Curves where there is one weight decay, else a map."""
    if len(grid.weight_decays) == 1:
        return _draw_curves(grid, ax, by, label)
    return _draw_map(grid, ax, by)


def _draw_curves(grid: "GridResult", ax: Axes | None, by: str, label: str | None) -> Axes:
    """The mean over seeds, in the band of all seeds; lanes that diverged as crosses on top."""
    order = np.argsort(grid.learning_rates)
    rates, lanes = grid.learning_rates[order], _finite(grid.final(by))[order, 0]
    lost = (grid.diverged[order, 0]).sum(axis=1)
    with panel(ax) as ax:
        look = next_look(ax)
        name = by if label is None else label
        ax.plot(rates, mean_over_seeds(lanes), marker="o", label=name, **look)
        if lanes.shape[1] > 1:
            low, high = (pick(lanes) for pick in (_lowest, _highest))
            ax.fill_between(rates, low, high, color=look["color"], alpha=0.15, lw=0)
        ax.set_xscale("log")
        if is_wide(lanes):
            ax.set_yscale("log")
            readable_ticks(ax)
        if lost.any():
            ax.plot(
                rates[lost > 0], np.full(int(np.sum(lost > 0)), 0.97), label="some seed diverged"
                if lanes.shape[1] > 1 else "diverged", transform=ax.get_xaxis_transform(),
                ls="none", marker="x", ms=7, mew=1.5, color=look["color"],
            )  # fmt: skip
        ax.set(xlabel="learning rate", ylabel=f"{by} after {grid.epochs} epochs")
        name_curves(ax)
    return ax


def _draw_map(grid: "GridResult", ax: Axes | None, by: str) -> Axes:
    """A cell for each learning rate and weight decay, coloured by the mean over seeds."""
    from matplotlib.colors import LogNorm, Normalize

    rows, columns = np.argsort(grid.weight_decays), np.argsort(grid.learning_rates)
    place = np.ix_(columns, rows)
    values = mean_over_seeds(_finite(grid.final(by)))[place].T
    lost = grid.diverged.sum(axis=2)[place].T
    finite = values[np.isfinite(values)]
    scale = "viridis_r" if grid.preferred == "smallest" else "viridis"  # the best is bright
    with panel(ax, 5.6, 3.6) as ax:
        ax.set_facecolor(_DIVERGED)
        ax.grid(visible=False)
        norm = LogNorm() if is_wide(finite) else Normalize()
        mesh = ax.pcolormesh(np.ma.masked_invalid(values), norm=norm, cmap=scale, ec="white", lw=1)
        _write(ax, values, lost, len(grid.seeds), mesh)
        _outline_best(ax, grid, by, rows, columns)
        _name_cells(ax, grid.learning_rates[columns], grid.weight_decays[rows])
        what = "" if len(grid.seeds) == 1 else ", mean over seeds"
        if finite.size:
            bar = ax.figure.colorbar(mesh, ax=ax)
            bar.set_label(f"{by} after {grid.epochs} epochs{what}")
    return ax


def _write(ax: Axes, values: np.ndarray, lost: np.ndarray, seeds: int, mesh: Any) -> None:
    """The value in each cell, and how many lanes diverged in it."""
    if values.size > _MOST_NUMBERS:
        cells = np.argwhere(lost > 0)
        ax.plot(*(cells.T[::-1] + 0.5), ls="none", marker="x", color="black", label="diverged")
        return
    for (row, column), value in np.ndenumerate(values):
        words = [f"{value:.3g}"] if np.isfinite(value) else []
        if lost[row, column]:
            part = "" if lost[row, column] == seeds else f"{lost[row, column]} of {seeds}\n"
            words.append(f"{part}diverged")
        is_dark = np.isfinite(value) and np.mean(mesh.to_rgba(value)[:3]) < 0.5
        color = "white" if is_dark else "black"
        at = (column + 0.5, row + 0.5)
        ax.text(*at, "\n".join(words), ha="center", va="center", fontsize=7.5, color=color)


def _outline_best(
    ax: Axes, grid: "GridResult", by: str, rows: np.ndarray, columns: np.ndarray
) -> None:
    """A frame around the cell of the lane that `best` chooses, if there is one."""
    from matplotlib.patches import Rectangle

    if not np.isfinite(grid.final(by)).any():
        return
    best = grid.best(by)
    row = int(np.flatnonzero(grid.weight_decays[rows] == best.weight_decay)[0])
    column = int(np.flatnonzero(grid.learning_rates[columns] == best.learning_rate)[0])
    ax.add_patch(Rectangle((column, row), 1, 1, fill=False, ec="#D55E00", lw=2.5))
    ax.set_title("framed: the cell of the best lane")


def _name_cells(ax: Axes, rates: np.ndarray, decays: np.ndarray) -> None:
    for axis, values in (("x", rates), ("y", decays)):
        every = -(-len(values) // 12)  # of many, every few have room
        places = np.arange(len(values))[::every]
        getattr(ax, f"set_{axis}ticks")(places + 0.5, [f"{values[i]:.3g}" for i in places])
    ax.set(xlabel="learning rate", ylabel="weight decay")


def mean_over_seeds(lanes: Float[np.ndarray, "*a s"]) -> Float[np.ndarray, "*a"]:
    """The mean over the lanes that are finite; nan where none is."""
    count = np.isfinite(lanes).sum(axis=-1)
    total = np.where(np.isfinite(lanes), lanes, 0.0).sum(axis=-1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _lowest(lanes: Float[np.ndarray, "l s"]) -> Float[np.ndarray, " l"]:
    low = np.where(np.isnan(lanes), np.inf, lanes).min(axis=-1)
    return np.where(np.isfinite(low), low, np.nan)


def _highest(lanes: Float[np.ndarray, "l s"]) -> Float[np.ndarray, " l"]:
    return -_lowest(-lanes)


def _finite(values: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    return np.where(np.isfinite(values), values, np.nan)
