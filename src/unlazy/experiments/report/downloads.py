# SPDX-License-Identifier: Apache-2.0
"""The tables behind a figure, joined for people: one per kind of cell, as CSV and as Parquet."""

import csv
import io
from collections.abc import Sequence

import numpy as np

from unlazy.experiments.canonical import compact_json
from unlazy.experiments.report.stored import StoredCell
from unlazy.experiments.tables import table_bytes


def joined_tables(cells: Sequence[StoredCell]) -> dict[str, dict[str, np.ndarray]]:
    """The rows of all cells whose tables have the same columns, by the kind of cell.

    Columns in front say which cell a row is of: its seed, and its configuration as JSON.
    """
    kinds: dict[tuple[str, ...], list[StoredCell]] = {}
    for cell in cells:
        if cell.result.rows:
            kinds.setdefault((_kind(cell), *cell.result.table), []).append(cell)
    tables: dict[str, dict[str, np.ndarray]] = {}
    for (kind, *_), group in kinds.items():
        name = kind if kind not in tables else f"{kind}-{len(tables)}"
        tables[name] = _joined(group)
    return tables


def files_of(name: str, table: dict[str, np.ndarray]) -> dict[str, bytes]:
    """The table as the files of both formats, by name."""
    return {f"{name}.csv": _csv(table), f"{name}.parquet": table_bytes(table)}


def _kind(cell: StoredCell) -> str:
    config = cell.identity["config"]
    return str(config.get("class", "cells")).lower() if isinstance(config, dict) else "cells"


def _joined(group: Sequence[StoredCell]) -> dict[str, np.ndarray]:
    rows = [cell.result.rows for cell in group]
    seeds = np.array([cell.identity["seed"] for cell in group])
    configs = np.array([compact_json(cell.identity["config"]) for cell in group])
    front = {"cell_seed": np.repeat(seeds, rows), "cell_config": np.repeat(configs, rows)}
    columns = group[0].result.table
    return front | {
        name: np.concatenate([cell.result.table[name] for cell in group]) for name in columns
    }


def _csv(table: dict[str, np.ndarray]) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*(column.tolist() for column in table.values()), strict=True))
    return text.getvalue().encode()
