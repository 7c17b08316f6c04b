# SPDX-License-Identifier: Apache-2.0
"""Tables of a report, taken apart, are the cells that they were made of."""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from unlazy.core.errors import ArgumentsError, StoreError
from unlazy.experiments import Cell, CellResult, run_experiment, write_report
from unlazy.experiments.joined import joined, taken_apart
from unlazy.experiments.store import StoredCell

FILES = ("cell.json", "table.parquet", "arrays.npz", "meta.json")


@pytest.fixture(scope="module")
def report(toy, tmp_path_factory):
    """A stored run, and the tables of the report on it."""
    out = tmp_path_factory.mktemp("runs")
    run_experiment(toy.EXPERIMENT, "smoke", out=out)
    return out, write_report(out).page.parent / "files"


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
    for table in joined(cells):
        (tmp_path / f"{table.name}.parquet").write_bytes(table.parquet("toy/many", 2))
    found = taken_apart(tmp_path, "toy/many", 2)
    assert set(found) == {cell.digest for cell in cells}
    for cell in cells:
        taken = found[cell.digest]
        assert (taken.digest, taken.identity, taken.meta) == (cell.digest, cell.identity, cell.meta)
        pairs = zip(*((c.result.table, c.result.arrays) for c in (taken, cell)), strict=True)
        for one, two in pairs:
            assert set(one) == set(two)
            for name, values in two.items():
                np.testing.assert_array_equal(one[name], values, strict=values.dtype.kind != "U")


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
    with pytest.raises(StoreError, match=f"cannot read '{tmp_path}' as tables of a report"):
        taken_apart(tmp_path, "toy/many", 2)


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
