# SPDX-License-Identifier: Apache-2.0
"""The cells of a run joined to a few tables that people can read, and taken apart again."""

import csv
import hashlib
import io
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.core.errors import ArgumentsError, StoreError
from unlazy.experiments.canonical import compact_json
from unlazy.experiments.cell import CellResult
from unlazy.experiments.store import StoredCell
from unlazy.experiments.tables import read_note, read_table, table_bytes

Table = dict[str, np.ndarray]
_INDEX, _ROWS, _ENTRIES = "index", "rows", "entries"  # the three kinds of tables
_NOT_NAMES, _LONGEST_NAME = re.compile(r"[^a-z0-9_]+"), 60
_SEED, _CONFIG = "cell_seed", "cell_config"  # the columns that say which cell a row is of


@dataclass(frozen=True)
class JoinedTable:
    """A table with the rows of many cells."""

    name: str  # of its files
    holds: str  # "index": a row per cell; "rows": those of the cells; "entries": of their arrays
    columns: Table

    def parquet(self, experiment: str, version: int) -> bytes:
        """The table as Parquet, with a note that lets `taken_apart` find its cells."""
        return table_bytes(
            self.columns,
            note={"experiment": experiment, "version": version, "holds": self.holds},
        )

    def csv(self) -> bytes:
        """The table as text, with a column for each setting in which its cells differ.

        The whole configuration in every row would be most of the file.
        """
        columns = {_SEED: self.columns[_SEED], **_differing(self.columns[_CONFIG])}
        columns |= {name: column for name, column in self.columns.items() if name != _CONFIG}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(c.tolist() for c in columns.values()), strict=True))
        # Settings come from JSON, which may have halves of characters, which no encoding has.
        return text.getvalue().encode(errors="backslashreplace")


def joined(cells: Sequence[StoredCell]) -> list[JoinedTable]:
    """The cells of one run as tables: an index, their rows, and the entries of their arrays.

    Rows are joined by the kind of cell and the columns that it has, entries by their dtype. Columns
    in front say which cell a row is of: its seed, and its configuration as JSON.
    """
    if not cells:
        return []
    kinds: dict[tuple[str, ...], list[StoredCell]] = {}
    for cell in cells:
        if cell.result.rows:
            kinds.setdefault((_kind(cell), *cell.result.table), []).append(cell)
    names = [kind for kind, *_ in kinds]
    rows = [
        JoinedTable(kind if names.index(kind) == i else f"{kind}-{i}", _ROWS, _rows(group))
        for i, (kind, group) in enumerate(zip(names, kinds.values(), strict=True))
    ]
    return [JoinedTable("index", _INDEX, _index(cells)), *rows, *_entries(cells)]


def taken_apart(folder: Path, experiment: str, version: int) -> dict[str, StoredCell]:
    """The cells of an experiment in the tables of a folder and of those below it, by their digests.

    A cell is there if all of its rows and arrays are.

    Raises:
        ArgumentsError: If there is no such folder, or no table of cells in it.
        StoreError: If a table cannot be read, or is not what a report has.
    """
    of = {"experiment": experiment, "version": version}
    found: dict[str, StoredCell] = {}
    for where, run in _tables(folder, of).items():
        with _readable(where):
            found |= _cells(run, of)
    return found


def _tables(folder: Path, of: Mapping[str, Any]) -> dict[Path, dict[str, list[Table]]]:
    """What the tables of this experiment hold, by the folder that they are in."""
    runs: dict[Path, dict[str, list[Table]]] = {}
    known = False
    for path in sorted(folder.rglob("*.parquet")):
        with _readable(path):
            note = read_note(path)
            known = known or bool(note)
            if of.items() <= note.items():
                run = runs.setdefault(path.parent, {_INDEX: [], _ROWS: [], _ENTRIES: []})
                run[note["holds"]].append(read_table(path))
    if not known:
        raise ArgumentsError(
            "`tables` must be a folder with the Parquet tables of a report, such as "
            f"'runs/report/files', got tables='{folder}'."
        )
    return runs


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Say in one line what is no table of a report, whatever the reader raises."""
    try:
        yield
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StoreError(f"cannot read '{path}' as tables of a report: {reason}.") from error


def _cells(
    parts: Mapping[str, Sequence[Table]], of: Mapping[str, Any]
) -> Iterator[tuple[str, StoredCell]]:
    """The cells of one run that are whole, with their digests."""
    tables = {key: rest for table in parts[_ROWS] for key, rest in _by_cell(table)}
    arrays: dict[tuple[int, str], dict[str, np.ndarray]] = {}
    for table in parts[_ENTRIES]:
        for key, entries in _by_cell(table):
            arrays.setdefault(key, {}).update(_arrays(entries))
    for index in parts[_INDEX]:
        for row, (seed, config) in enumerate(_keys(index)):
            result = CellResult(tables.get((seed, config), {}), arrays.get((seed, config), {}))
            if _counts(result) == {name: int(index[name][row]) for name in _counts(result)}:
                identity = {**of, "config": json.loads(config), "seed": seed}
                digest = hashlib.sha256(compact_json(identity).encode()).hexdigest()
                meta = json.loads(str(index["meta"][row]))
                yield digest, StoredCell(digest, identity, result, meta)


def _kind(cell: StoredCell) -> str:
    """The kind of a cell, as the name of a file: it comes from a file that anyone may have made."""
    config = cell.identity["config"]
    name = str(config.get("class", "")) if isinstance(config, dict) else ""
    return _NOT_NAMES.sub("_", name.lower())[:_LONGEST_NAME] or "cells"


def _counts(result: CellResult) -> dict[str, int]:
    return {"rows": result.rows, "columns": len(result.table), "arrays": len(result.arrays)}


def _front(cells: Sequence[StoredCell], repeats: Sequence[int]) -> Table:
    """The columns that say which cell a row is of."""
    seeds = np.array([cell.identity["seed"] for cell in cells])
    configs = np.array([compact_json(cell.identity["config"]) for cell in cells])
    return {_SEED: np.repeat(seeds, repeats), _CONFIG: np.repeat(configs, repeats)}


def _index(cells: Sequence[StoredCell]) -> Table:
    counts = [_counts(cell.result) for cell in cells]
    meta = [compact_json(dict(cell.meta)) for cell in cells]
    columns = {name: np.array([one[name] for one in counts]) for name in counts[0]}
    return _front(cells, [1] * len(cells)) | columns | {"meta": np.array(meta)}


def _rows(group: Sequence[StoredCell]) -> Table:
    tables = [cell.result.table for cell in group]
    return _front(group, [cell.result.rows for cell in group]) | {
        name: np.concatenate([table[name] for table in tables]) for name in tables[0]
    }


def _entries(cells: Sequence[StoredCell]) -> list[JoinedTable]:
    """The entries of all arrays, a row each, and a table per dtype, in which all values agree."""
    by_dtype: dict[str, list[Table]] = {}
    for cell in cells:
        for name, array in cell.result.arrays.items():
            dtype = array.dtype
            fits = dtype.kind in "biuU" or (dtype.kind == "f" and dtype.itemsize <= 8)
            if array.size == 0 or not fits:
                continue  # the index says that it is missing
            kind = "text" if dtype.kind == "U" else dtype.name
            by_dtype.setdefault(kind, []).append(
                _front([cell], [array.size])
                | {
                    "array": np.repeat(name, array.size),
                    "shape": np.repeat(compact_json(array.shape), array.size),
                    "value": array.ravel(),
                }
            )
    return [
        JoinedTable(f"arrays-{kind}", _ENTRIES, _stacked(parts)) for kind, parts in by_dtype.items()
    ]


def _stacked(tables: Sequence[Table]) -> Table:
    return {name: np.concatenate([table[name] for table in tables]) for name in tables[0]}


def _differing(configs: np.ndarray) -> Table:
    """The settings that are not the same in all configurations, as columns such as `cell_width`."""
    texts, where = np.unique(configs, return_inverse=True)
    settings = [dict(_settings(json.loads(text), "cell")) for text in texts.tolist()]
    names = dict.fromkeys(name for one in settings for name in one)
    columns = {name: [one.get(name, "") for one in settings] for name in names}
    return {
        name: np.array([str(value) for value in values])[where]
        for name, values in columns.items()
        if any(value != values[0] for value in values)
    }


def _settings(config: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The scalars and lists of an encoded configuration, under names such as `cell_task_n`."""
    if isinstance(config, dict):
        for part, value in config.items():
            yield from _settings(value, f"{name}_{part}")
    elif isinstance(config, list):
        yield name, " ".join(map(str, config))
    else:
        yield name, "" if config is None else config


def _arrays(entries: Table) -> dict[str, np.ndarray]:
    """The arrays of one cell from their entries."""
    return {
        str(names[0]): values.reshape(json.loads(str(shapes[0])))
        for names, shapes, values in _runs(entries, ("array",), ("array", "shape", "value"))
    }


def _by_cell(table: Table) -> Iterator[tuple[tuple[int, str], Table]]:
    """The rows of each cell, which stand together, without the columns in front."""
    rest = [name for name in table if name not in (_SEED, _CONFIG)]
    for seeds, configs, *columns in _runs(table, (_SEED, _CONFIG), (_SEED, _CONFIG, *rest)):
        yield (int(seeds[0]), str(configs[0])), dict(zip(rest, columns, strict=True))


def _runs(
    table: Table, keys: Sequence[str], wanted: Sequence[str]
) -> Iterator[tuple[np.ndarray, ...]]:
    """The wanted columns, cut wherever one of the keys changes."""
    changes = np.any([table[key][1:] != table[key][:-1] for key in keys], axis=0)
    cuts = [0, *(np.flatnonzero(changes) + 1), len(table[keys[0]])]
    for start, end in itertools.pairwise(cuts):
        yield tuple(table[name][start:end] for name in wanted)


def _keys(table: Table) -> list[tuple[int, str]]:
    return list(zip(table[_SEED].tolist(), table[_CONFIG].tolist(), strict=True))
