# SPDX-License-Identifier: Apache-2.0
"""Tables of a report, taken apart, are the cells that they were made of."""

import contextlib
import dataclasses
import json
import resource
import shutil
from pathlib import Path

import numpy as np
import pytest

from unlazy.core.errors import ArgumentsError, StoreError
from unlazy.experiments import Cell, CellResult, run_experiment, write_report
from unlazy.experiments.joined import joined, taken_apart
from unlazy.experiments.store import StoredCell

MOST_MEMORY = 800 * 2**20  # more than is needed: of addresses, not of what is used
FLOATS = ["arrays-float64"]
FILES = ("cell.json", "table.parquet", "arrays.npz", "meta.json")


@pytest.fixture(scope="module")
def report(toy, tmp_path_factory):
    """A stored run, and the tables of the report on it."""
    out = tmp_path_factory.mktemp("runs")
    run_experiment(toy.EXPERIMENT, "smoke", out=out)
    return out, write_report(out).page.parent / "files"


@contextlib.contextmanager
def bounded(memory):
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + memory, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def stored_files(out):
    cells = out / "cells"
    return {str(p.relative_to(cells)): p.read_bytes() for p in cells.rglob("*") if p.name in FILES}


def refuses_to_run(*args, **kwargs):
    raise AssertionError("a cell was computed")


def test_a_run_from_tables_computes_nothing_and_stores_the_same_bytes(toy, report, tmp_path):
    out, tables = report
    drawn = dataclasses.replace(toy.EXPERIMENT, run=refuses_to_run)
    again = run_experiment(drawn, "smoke", out=tmp_path, tables=tables)
    assert (again.computed, again.reused) == (0, 3)
    assert again.ok
    assert stored_files(tmp_path) == stored_files(out)  # what was recorded about the run, too
    assert len(stored_files(out)) == 3 * len(FILES)


def test_cells_that_the_tables_lack_are_computed(toy, report, tmp_path):
    _, tables = report
    first = toy.EXPERIMENT.cells(toy.EXPERIMENT.presets["smoke"].config)
    known = taken_apart(tables, toy.NAME, toy.VERSION)
    assert set(known) == {cell.digest for cell in first}
    assert taken_apart(tables, toy.NAME, toy.VERSION + 1) == {}
    report = run_experiment(toy.EXPERIMENT, "quick", out=tmp_path, tables=tables)
    assert (report.computed, report.reused) == (12, 0)


def cell_of(config, seed, result):
    cell = Cell("toy/many", 2, config, seed)
    return StoredCell(cell.digest, cell.identity(), result, {"seconds": seed})


def check_round_trip(cells, folder):
    """Joined and taken apart, the cells are what they were, to the bit; returns the names."""
    names = []
    for table in joined(cells):
        names.append(table.name)
        (folder / f"{table.name}.parquet").write_bytes(table.parquet("toy/many", 2))
    assert len(set(names)) == len(names)
    found = taken_apart(folder, "toy/many", 2)
    assert set(found) == {cell.digest for cell in cells}
    for cell in cells:
        taken = found[cell.digest]
        assert (taken.digest, taken.identity, taken.meta) == (cell.digest, cell.identity, cell.meta)
        assert list(taken.result.table) == list(cell.result.table)
        pairs = zip(*((c.result.table, c.result.arrays) for c in (taken, cell)), strict=True)
        for one, two in pairs:
            assert set(one) == set(two)
            for name, values in two.items():
                np.testing.assert_array_equal(one[name], values, strict=values.dtype.kind != "U")
    return names


@pytest.mark.parametrize(
    ("one", "two"),
    [
        (np.array([2**53 + 1]), np.array([0.5])),  # the integer would be rounded
        (np.array([1]), np.array(["1"])),
        (np.array([0.1], "float32"), np.array([0.1])),
        (np.array([True]), np.array([2])),
        (np.array([-1]), np.array([2**63], "uint64")),
    ],
)
def test_columns_of_two_dtypes_stay_apart(one, two, tmp_path):
    columns = (one, two, one)
    cells = [cell_of("same", i, CellResult({"a": column})) for i, column in enumerate(columns)]
    assert check_round_trip(cells, tmp_path) == ["index", "cells", "cells-1"]


def test_names_of_our_own_may_be_those_of_a_cell(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Index:
        seed: int

    table = {"cell_seed": np.array([7.5, 8.5]), "cell_config": np.array(["x", "y"])}
    table |= {"cell_seed_": np.arange(2), "array": np.array(["p", "q"])}
    arrays = {"array": np.arange(3), "cell_seed": np.ones(2)}
    cells = [cell_of(Index(10 + i), i, CellResult(table, arrays)) for i in range(2)]
    assert check_round_trip(cells, tmp_path) == ["index", "index-0", "arrays-int64", *FLOATS]
    [rows] = [table for table in joined(cells) if table.holds == "rows"]
    head, first, *_ = rows.csv().decode().splitlines()
    names = "cell_seed,cell_seed___,cell_seed__,cell_config_,cell_seed_,array"
    assert (head, first) == (names, "0,10,7.5,x,0,p")


@pytest.mark.parametrize("seeds", [(2**70, 0), (-1, 2**63 + 5), (-(2**80), 5), (2**63, 2**63 + 1)])
def test_seeds_may_be_any_integers(seeds, tmp_path):
    result = CellResult({"a": np.array([1.0])}, {"b": np.ones(2)})
    check_round_trip([cell_of("same", seed, result) for seed in seeds], tmp_path)


def test_entries_in_several_groups_of_rows_come_back(tmp_path):
    draw = np.random.default_rng(0)
    arrays = [{"m": draw.normal(size=700_000), "n": draw.normal(size=(2, 300_000))} for _ in "ab"]
    check_round_trip([cell_of("x", i, CellResult({}, a)) for i, a in enumerate(arrays)], tmp_path)


def test_the_memory_is_a_few_times_that_of_the_arrays(tmp_path):
    cell = cell_of("a" * 300, 0, CellResult({}, {"gram": np.zeros((1000, 1000))}))  # 8 MB
    check_round_trip([cell_of("a" * 300, 1, CellResult({}, {"gram": np.zeros(9)}))], tmp_path)
    with bounded(MOST_MEMORY):  # once 2.6 GB
        check_round_trip([cell], tmp_path)


def test_tables_of_several_kinds_and_arrays_of_any_shape_come_back(tmp_path):
    draw = np.random.default_rng(0)
    results = [
        CellResult({"a": np.arange(3), "b": np.array(["x", "yy", "z"])}),
        CellResult({"a": np.arange(2), "b": np.array(["long text", ""])}),
        CellResult({"a": np.array([True]), "c": np.array([1.5], "float32")}),
        CellResult({}, {"m": draw.normal(size=(2, 3, 2)), "s": np.array(7, "int32")}),
        CellResult({"a": np.array([1])}, {"m": draw.normal(size=4), "n": draw.normal(size=(2, 2))}),
        CellResult({}, {"t": np.array([["p", "q"]]), "m": draw.normal(size=2).astype("float32")}),
    ]
    cells = [cell_of((i % 2, "two lines\nof text"), i, r) for i, r in enumerate(results)]
    check_round_trip(cells, tmp_path)


@pytest.mark.parametrize(
    "result",
    [
        CellResult({"a": np.arange(0)}),  # a column without rows
        CellResult({}, {"none": np.zeros((0, 2))}),
        CellResult({}, {"complex": np.array([1j])}),
    ],
    ids=["no rows", "no entries", "complex"],
)
def test_a_cell_that_the_tables_cannot_hold_is_left_out(result, tmp_path):
    whole = cell_of("whole", 1, CellResult({"a": np.arange(2)}))
    for table in joined([cell_of("part", 0, result), whole]):
        (tmp_path / f"{table.name}.parquet").write_bytes(table.parquet("toy/many", 2))
    assert set(taken_apart(tmp_path, "toy/many", 2)) == {whole.digest}


def test_a_cell_with_a_lost_table_is_left_out(toy, report, tmp_path):
    shutil.copytree(report[1], tmp_path, dirs_exist_ok=True)
    [lost] = tmp_path.rglob("arrays-float64.parquet")
    lost.unlink()
    assert taken_apart(tmp_path, toy.NAME, toy.VERSION) == {}


def test_what_is_no_folder_of_tables_is_one_clear_error(toy, report, tmp_path):
    with pytest.raises(ArgumentsError, match=r"`tables` must be a folder with the Parquet tables"):
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path / "out", tables=tmp_path / "nowhere")
    with pytest.raises(ArgumentsError, match="`tables` must be left out with `force`"):
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path / "out", tables=report[1], force=True)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(StoreError, match=r"cannot read .*broken\.parquet' as tables"):
        taken_apart(tmp_path, toy.NAME, toy.VERSION)


def test_tables_without_a_column_are_one_clear_error(tmp_path):
    [index, rows] = joined([cell_of("one", 0, CellResult({"a": np.arange(2)}))])
    for table in (index, dataclasses.replace(rows, columns={"a": np.arange(2)})):
        (tmp_path / f"{table.name}.parquet").write_bytes(table.parquet("toy/many", 2))
    said = r"cannot read .*cells\.parquet' as tables of a report: it has no column 'cell_config'"
    with pytest.raises(StoreError, match=said):
        taken_apart(tmp_path, "toy/many", 2)


@pytest.mark.parametrize("meta", ["[1]", '{"x": NaN}', "null", "{", "[" * 100_000])
def test_what_an_index_says_of_a_cell_is_an_object_or_one_clear_error(meta, tmp_path):
    [index, rows] = joined([cell_of("one", 0, CellResult({"a": np.arange(2)}))])
    columns = index.columns | {"meta": np.array([meta])}
    for table in (dataclasses.replace(index, columns=columns), rows):
        (tmp_path / f"{table.name}.parquet").write_bytes(table.parquet("toy/many", 2))
    with pytest.raises(StoreError, match=f"cannot read '{tmp_path}' as tables of a report") as told:
        taken_apart(tmp_path, "toy/many", 2)
    assert "\n" not in str(told.value)


def test_the_index_says_what_each_cell_was_computed_with(toy, report):
    found = taken_apart(report[1], toy.NAME, toy.VERSION)
    for cell in found.values():
        assert {"device", "seconds", "versions"} <= set(cell.meta)
        assert json.dumps(cell.meta)


@pytest.mark.parametrize("name", ["../../escaped", "a" * 300, "", "/tmp/x", 5])
def test_the_class_of_a_configuration_gives_a_plain_file_name(name):
    cell = cell_of(None, 0, CellResult({"a": np.arange(2)}))
    forged = dataclasses.replace(cell, identity=dict(cell.identity) | {"config": {"class": name}})
    [_, rows] = joined([forged])
    assert rows.name.replace("_", "").isalnum()
    assert len(rows.name) < 100
