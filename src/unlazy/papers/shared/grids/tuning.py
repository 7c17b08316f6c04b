# SPDX-License-Identifier: Apache-2.0
"""A grid of learning rates and weight decays, extended where its best lane lies on an edge."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from unlazy.papers.shared.grids.lattice import decade_beyond

Table = dict[str, np.ndarray]


@dataclass(frozen=True)
class Grid:
    """Learning rates and weight decays, and how often a decade may be added at an edge."""

    rates: tuple[float, ...]
    decays: tuple[float, ...]
    extend: int


@runtime_checkable
class Fit(Protocol):
    """Trains a grid: `fit(rates, decays)` gives a row a lane."""

    def __call__(self, rates: Sequence[float], decays: Sequence[float], /) -> Table:
        """The lanes of these rates and decays."""
        ...


def tune(
    fit: Fit, rates: Sequence[float], decays: Sequence[float], *, extend: int, by: str = "test"
) -> Table:
    """Train a grid and, up to `extend` times, the decade beyond each edge that the best lies on.

    "Best" is judged seed by seed. An axis of fewer than three values was not meant to be tuned and
    stays; no decay at all is an end, not an edge.

    Source: LG-50, arXiv:1811.04918 section 7.

    Args:
        fit: trains the lanes of a grid.
        rates: learning rates on the lattice.
        decays: weight decays, likewise or 0.
        extend: at most how often.
        by: the column that says which lane is best.

    Returns:
        The lanes of all grids, with a column `extension`, 0 for the first.
    """
    axes = {"learning_rate": tuple(rates), "weight_decay": tuple(decays)}
    tables = [_numbered(fit(rates, decays), 0)]
    for number in range(1, extend + 1):
        added = {name: _beyond(merge(tables), name, axes[name], by) for name in axes}
        if not any(added.values()):
            break
        for name, values in added.items():
            if values:
                grid = axes | {name: values}
                tables.append(_numbered(fit(grid["learning_rate"], grid["weight_decay"]), number))
                axes[name] += values
    return merge(tables)


def best_rows(table: Table, by: str) -> dict[int, int]:
    """For each seed the row of its smallest finite value; seeds without one are left out."""
    found = {}
    for seed in np.unique(table["seed"]):
        rows = np.flatnonzero((table["seed"] == seed) & np.isfinite(table[by]))
        if len(rows):
            found[int(seed)] = int(rows[np.argmin(table[by][rows])])
    return found


def merge(tables: Sequence[Table]) -> Table:
    """The rows of all tables, one below the other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _beyond(table: Table, name: str, values: tuple[float, ...], by: str) -> tuple[float, ...]:
    if len(values) < 3:
        return ()
    best = best_rows(table, by)
    chosen = {float(table[name][row]) for row in best.values()}
    if len(best) < len(np.unique(table["seed"])) and name == "learning_rate":
        chosen.add(min(values))  # everything diverged
    added: tuple[float, ...] = ()
    if min(values) > 0 and min(values) in chosen:
        added += decade_beyond(values, "low")
    if max(values) in chosen:
        added += decade_beyond(values, "high")
    return added


def _numbered(table: Table, number: int) -> Table:
    rows = len(table["seed"])
    return table | {"extension": np.full(rows, number)}
