# SPDX-License-Identifier: Apache-2.0
"""The cells of a run joined to a few tables that people can read, and taken apart again."""

import csv
import hashlib
import io
import itertools
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unlazy.core.errors import ArgumentsError, StoreError
from unlazy.experiments.canonical import compact_json, plain_json
from unlazy.experiments.cell import CellResult
from unlazy.experiments.store import StoredCell
from unlazy.experiments.tables import (
    Repeated,
    noted_table_bytes,
    read_note,
    read_repeated,
    read_table,
    repeated,
)

Table = dict[str, np.ndarray]
Columns = dict[str, np.ndarray | Repeated]
_INDEX, _ROWS, _ENTRIES = "index", "rows", "entries"  # the three kinds of tables
_NOT_NAMES, _LONGEST_NAME = re.compile(r"[^a-z0-9_]+"), 60
_SEED, _CONFIG = "cell_seed", "cell_config"  # the columns that say which cell a row is of
_ARRAY, _SHAPE, _VALUE = "array", "shape", "value"  # those of entries
_BLOCK = 10_000  # rows of a CSV that are Python objects at a time


@dataclass(frozen=True)
class JoinedTable:
    """A table with the rows of many cells."""

    name: str  # of its files
    holds: str  # "index": a row per cell; "rows": those of the cells; "entries": of their arrays
    columns: Columns
    renamed: Mapping[str, str] = field(default_factory=dict)  # columns, to what the cells call them

    def parquet(self, experiment: str, version: int) -> bytes:
        """The table as Parquet, with a note that lets `taken_apart` find its cells."""
        note = {"experiment": experiment, "version": version, "holds": self.holds}
        renamed = {"renamed": dict(self.renamed)} if self.renamed else {}
        return noted_table_bytes(self.columns, note | renamed)

    def csv(self) -> bytes:
        """The table as text, with a column for each setting in which its cells differ.

        The whole configuration in every row would be most of the file.
        """
        settings = _differing(_repeated(self.columns, _CONFIG))
        columns: Columns = {_SEED: self.columns[_SEED]}
        columns |= {_free(name, self.columns): column for name, column in settings.items()}
        columns |= {name: column for name, column in self.columns.items() if name != _CONFIG}
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        for start in range(0, _length(columns[_SEED]), _BLOCK):
            block = slice(start, start + _BLOCK)
            writer.writerows(zip(*(_listed(c, block) for c in columns.values()), strict=True))
        # Settings come from JSON, which may have halves of characters, which no encoding has.
        return text.getvalue().encode(errors="backslashreplace")


def joined(cells: Sequence[StoredCell]) -> Iterator[JoinedTable]:
    """The cells of one run as tables: an index, their rows, and the entries of their arrays.

    Rows are joined by the kind of cell and the columns that it has, with their dtypes, entries by
    theirs: joining numbers of two dtypes would change them. Columns in front say which cell a row
    is of: its seed, and its configuration as JSON. One table is made at a time.
    """
    if not cells:
        return
    yield JoinedTable(_INDEX, _INDEX, _index(cells))
    kinds: dict[tuple[Any, ...], list[StoredCell]] = {}
    for cell in cells:
        if cell.result.rows:
            columns = ((name, _type(column)) for name, column in cell.result.table.items())
            kinds.setdefault((_kind(cell), *columns), []).append(cell)
    taken = [_INDEX]
    for number, ((kind, *_), group) in enumerate(kinds.items()):
        yield _rows(f"{kind}-{number}" if kind in taken else kind, group)
        taken.append(kind)
    yield from _entries(cells)


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


class _Part(NamedTuple):
    """One table of a folder: the columns that say which cell a row is of, and the others."""

    seeds: np.ndarray
    configs: Repeated
    columns: Table
    texts: Mapping[str, Repeated]  # of entries: which array they are of, and its shape

    def cells(self) -> Iterator[tuple[tuple[int, str], slice]]:
        """The cells, by their keys, with the place of their rows, which stand together."""
        for place in _stretches(self.seeds, self.configs.codes):
            yield (int(self.seeds[place.start]), _first(self.configs, place)), place


def _part(path: Path, note: Mapping[str, Any]) -> _Part:
    names = (_ARRAY, _SHAPE) if note["holds"] == _ENTRIES else ()
    texts = read_repeated(path, (_CONFIG, *names))
    columns = read_table(path, without=(_CONFIG, *names))
    seeds, configs = columns.pop(_SEED), texts.pop(_CONFIG)
    called = note.get("renamed", {})
    return _Part(seeds, configs, {called.get(n, n): c for n, c in columns.items()}, texts)


def _tables(folder: Path, of: Mapping[str, Any]) -> dict[Path, dict[str, list[_Part]]]:
    """What the tables of this experiment hold, by the folder that they are in."""
    runs: dict[Path, dict[str, list[_Part]]] = {}
    known = False
    for path in sorted(folder.rglob("*.parquet")):
        with _readable(path):
            note = read_note(path)
            known = known or bool(note)
            if of.items() <= note.items():
                run = runs.setdefault(path.parent, {_INDEX: [], _ROWS: [], _ENTRIES: []})
                run[note["holds"]].append(_part(path, note))
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
    parts: Mapping[str, Sequence[_Part]], of: Mapping[str, Any]
) -> Iterator[tuple[str, StoredCell]]:
    """The cells of one run that are whole, with their digests."""
    tables: dict[tuple[int, str], Table] = {}
    for part in parts[_ROWS]:
        for key, place in part.cells():
            tables[key] = {name: column[place] for name, column in part.columns.items()}
    arrays: dict[tuple[int, str], dict[str, np.ndarray]] = {}
    for part in parts[_ENTRIES]:
        for key, place in part.cells():
            arrays.setdefault(key, {}).update(_arrays(part, place))
    for index in parts[_INDEX]:
        for key, place in index.cells():
            result = CellResult(tables.get(key, {}), arrays.get(key, {}))
            said = {name: column[place.start] for name, column in index.columns.items()}
            if _counts(result) == {name: int(said[name]) for name in _counts(result)}:
                identity = {**of, "config": plain_json(key[1]), "seed": key[0]}
                digest = hashlib.sha256(compact_json(identity).encode()).hexdigest()
                yield digest, StoredCell(digest, identity, result, _meta(str(said["meta"])))


def _meta(text: str) -> dict[str, Any]:
    meta = plain_json(text)
    if not isinstance(meta, dict):
        raise ValueError(f"`meta` must be a JSON object, got meta={text[:40]!r}")
    return meta


def _arrays(part: _Part, place: slice) -> Iterator[tuple[str, np.ndarray]]:
    """The arrays of the cell whose entries stand at this place."""
    names, shapes = part.texts[_ARRAY], part.texts[_SHAPE]
    for within in _stretches(names.codes[place]):
        entries = slice(place.start + within.start, place.start + within.stop)
        values = part.columns[_VALUE][entries]
        if values.dtype.kind == "U":
            values = np.array(values.tolist(), str)  # as wide as its own texts, not all others
        yield _first(names, entries), values.reshape(json.loads(_first(shapes, entries)))


def _kind(cell: StoredCell) -> str:
    """The kind of a cell, as the name of a file: it comes from a file that anyone may have made."""
    config = cell.identity["config"]
    name = str(config.get("class", "")) if isinstance(config, dict) else ""
    return _NOT_NAMES.sub("_", name.lower())[:_LONGEST_NAME] or "cells"


def _counts(result: CellResult) -> dict[str, int]:
    return {"rows": result.rows, "columns": len(result.table), "arrays": len(result.arrays)}


def _type(array: np.ndarray) -> str:
    return "text" if array.dtype.kind == "U" else array.dtype.name


def _front(cells: Sequence[StoredCell], counts: Sequence[int]) -> Columns:
    """The columns that say which cell a row is of."""
    seeds = [cell.identity["seed"] for cell in cells]
    # A seed may be any integer; those that Parquet does not have are written as text.
    fit = all(-(2**63) <= seed < 2**63 for seed in seeds)
    configs = [compact_json(cell.identity["config"]) for cell in cells]
    return {
        _SEED: repeated(seeds if fit else [str(seed) for seed in seeds], counts),
        _CONFIG: repeated(configs, counts),
    }


def _index(cells: Sequence[StoredCell]) -> Columns:
    once, counts = [1] * len(cells), [_counts(cell.result) for cell in cells]
    columns = {name: np.array([one[name] for one in counts]) for name in counts[0]}
    meta = repeated([compact_json(dict(cell.meta)) for cell in cells], once)
    return _front(cells, once) | columns | {"meta": meta}


def _rows(name: str, group: Sequence[StoredCell]) -> JoinedTable:
    """The rows of cells that have the same columns."""
    tables = [cell.result.table for cell in group]
    # Two names are those of the columns in front.
    names = {_free(column, (_SEED, _CONFIG), tables[0]): column for column in tables[0]}
    columns = {
        n: np.concatenate([table[column] for table in tables]) for n, column in names.items()
    }
    front = _front(group, [cell.result.rows for cell in group])
    renamed = {n: column for n, column in names.items() if n != column}
    return JoinedTable(name, _ROWS, front | columns, renamed)


def _entries(cells: Sequence[StoredCell]) -> Iterator[JoinedTable]:
    """The entries of all arrays, a row each, and a table per dtype, in which all values agree."""
    by_dtype: dict[str, list[tuple[StoredCell, str]]] = {}
    for cell in cells:
        for name, array in cell.result.arrays.items():
            dtype = array.dtype
            fits = dtype.kind in "biuU" or (dtype.kind == "f" and dtype.itemsize <= 8)
            if array.size and fits and dtype.isnative:  # the index says that others are missing
                by_dtype.setdefault(_type(array), []).append((cell, name))
    for dtype, found in by_dtype.items():
        arrays = [cell.result.arrays[name] for cell, name in found]
        sizes = [array.size for array in arrays]
        columns = {
            _ARRAY: repeated([name for _, name in found], sizes),
            _SHAPE: repeated([compact_json(array.shape) for array in arrays], sizes),
            _VALUE: np.concatenate([array.ravel() for array in arrays]),
        }
        front = _front([cell for cell, _ in found], sizes)
        yield JoinedTable(f"arrays-{dtype}", _ENTRIES, front | columns)


def _free(name: str, taken: Collection[str], others: Collection[str] = ()) -> str:
    """The name, with underscores behind it if it is taken; then it is none of the others either."""
    if name in taken:
        name += "_"
        while name in taken or name in others:
            name += "_"
    return name


def _differing(configs: Repeated) -> dict[str, Repeated]:
    """The settings that are not the same in all configurations, as columns such as `cell_width`."""
    settings = [dict(_settings(json.loads(text), "cell")) for text in map(str, configs.values)]
    names = dict.fromkeys(name for one in settings for name in one)
    columns = {name: [str(one.get(name, "")) for one in settings] for name in names}
    return {
        name: Repeated(values, configs.codes)
        for name, values in columns.items()
        if any(value != values[0] for value in values)
    }


def _repeated(columns: Columns, name: str) -> Repeated:
    column = columns[name]
    assert isinstance(column, Repeated)
    return column


def _length(column: np.ndarray | Repeated) -> int:
    return len(column.codes if isinstance(column, Repeated) else column)


def _listed(column: np.ndarray | Repeated, block: slice) -> list[Any]:
    return column.part(block) if isinstance(column, Repeated) else column[block].tolist()


def _first(column: Repeated, place: slice) -> str:
    return str(column.part(slice(place.start, place.start + 1))[0])


def _settings(config: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The scalars and lists of an encoded configuration, under names such as `cell_task_n`."""
    if isinstance(config, dict):
        for part, value in config.items():
            yield from _settings(value, f"{name}_{part}")
    elif isinstance(config, list):
        yield name, " ".join(map(str, config))
    else:
        yield name, "" if config is None else config


def _stretches(*columns: np.ndarray) -> Iterator[slice]:
    """The places of rows that stand together and agree in all columns."""
    changes = np.any([column[1:] != column[:-1] for column in columns], axis=0)
    cuts = [0, *(np.flatnonzero(changes) + 1).tolist(), len(columns[0])]
    for start, end in itertools.pairwise(cuts):
        if start < end:
            yield slice(start, end)
