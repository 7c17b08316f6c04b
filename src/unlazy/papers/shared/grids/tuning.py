# SPDX-License-Identifier: Apache-2.0
"""A grid of learning rates and weight decays, extended where its best lane lies on an edge."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unlazy.papers.shared.grids.lattice import decade_beyond

Table = dict[str, np.ndarray]
Fit = Callable[[Sequence[float], Sequence[float]], Table]  # rates, decays -> a row per lane


@dataclass(frozen=True)
class Grid:
    """Learning rates and weight decays, and how often a decade may be added at an edge."""

    rates: tuple[float, ...]
    decays: tuple[float, ...]
    extend: int


def tune(
    fit: Fit, rates: Sequence[float], decays: Sequence[float], *, extend: int, by: str = "test"
) -> Table:
    """Train a grid and, up to `extend` times, the decade beyond each edge that the best lies on.

    Each seed has its own best lane, by the column `by`. An axis of fewer than three values is not
    tuned and stays. A decay of zero is an end of its axis, not an edge. The rows are the lanes of
    all grids, numbered by the column `extension`, 0 for the first grid.

    Source: LG-50, arXiv:1811.04918 section 7.
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
    """The row of each seed's smallest finite value; seeds without one are left out."""
    found = {}
    for seed in np.unique(table["seed"]):
        rows = np.flatnonzero((table["seed"] == seed) & np.isfinite(table[by]))
        if len(rows):
            found[int(seed)] = int(rows[np.argmin(table[by][rows])])
    return found


def best_values(
    table: Table, seeds: Sequence[int], *, by: str = "test", of: str = "test", **where: Any
) -> np.ndarray:
    """The column `of` in each seed's best row by the column `by`; inf for seeds without one.

    `where` selects rows first, such as `solver="ridge"`.
    """
    for name, value in where.items():
        table = picked(table, table[name] == value)
    best = best_rows(table, by)
    return np.array([table[of][best[seed]] if seed in best else np.inf for seed in seeds])


def picked(table: Table, rows: np.ndarray) -> Table:
    """The rows of a table with these numbers, or where this is true."""
    return {name: column[rows] for name, column in table.items()}


def merge(tables: Sequence[Table]) -> Table:
    """The rows of all tables, one below the other."""
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def shown(values: Iterable[float], between: str = ", ") -> str:
    """Numbers to three digits, as in the notes of claims."""
    return between.join(f"{value:.3g}" for value in values)


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
    return table | {"extension": np.full(len(table["seed"]), number)}
