# SPDX-License-Identifier: Apache-2.0
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from unlazy.cli import main
from unlazy.errors import DataFileError
from unlazy.measure import read_table


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((50, 3))
    return pa.table(
        {
            "height": x[:, 0],
            "weight": x[:, 1],
            "note": ["text"] * 50,
            "age": x[:, 2],
            "kind": np.where(x[:, 0] > 0, "cat", "dog"),
        }
    )


@pytest.fixture
def paths(tmp_path, table):
    pyarrow.csv.write_csv(table, tmp_path / "pets.csv")
    pyarrow.parquet.write_table(table, tmp_path / "pets.parquet")
    x = np.stack([table[name].to_numpy() for name in ("height", "weight", "age")], axis=1)
    np.savez(tmp_path / "pets.npz", x=x.reshape(50, 3, 1), kind=table["kind"].to_pylist())
    return [tmp_path / f"pets.{ending}" for ending in ("csv", "parquet", "npz")]


def test_three_formats_hold_the_same(paths):
    tables = [read_table(path, y="kind") for path in paths]
    for other in tables[1:]:
        np.testing.assert_allclose(other.x, tables[0].x, rtol=1e-12)
        assert other.y.tolist() == tables[0].y.tolist()
    assert tables[0].x.shape == (50, 3)


def test_columns_are_chosen_by_name(paths, table):
    chosen = read_table(paths[0], x=["age", "height"], y="kind")
    np.testing.assert_allclose(chosen.x[:, 0], table["age"].to_numpy(), rtol=1e-12)
    assert chosen.x.shape == (50, 2)


def test_each_mistake_has_its_line(paths, tmp_path):
    csv, parquet, npz = paths
    cases = [
        (tmp_path / "none.csv", {}, "must be a file"),
        (tmp_path / "pets.xlsx", {}, "must end in .npz, .csv, .parquet"),
        (csv, {"y": "knid"}, "Did you mean 'kind'"),
        (csv, {"y": "kind", "x": ["note"]}, "must be numeric columns .* got note"),
        (parquet, {"y": "kind", "x": ["heigth"]}, "Did you mean 'height'"),
        (npz, {"y": "label"}, "must be a known name, got column='label'"),
    ]
    for path, arguments, message in cases:
        with pytest.raises(DataFileError, match=message):
            read_table(path, **arguments)
    for ending in ("npz", "parquet"):
        bad = tmp_path / f"bad.{ending}"
        bad.write_bytes(b"not at all")
        with pytest.raises(DataFileError, match=rf"must be an? {ending} file"):
            read_table(bad)
    np.savez(tmp_path / "pickled.npz", x=np.array([{}], dtype=object), y=np.ones(1))
    with pytest.raises(DataFileError, match="must be an npz file of plain arrays"):
        read_table(tmp_path / "pickled.npz")


def test_the_command_prints_one_json_object(paths, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["measure", str(paths[0]), "--y", "kind", "--json", "--out", str(tmp_path / "out")])
    assert exit_.value.code == 0
    content = json.loads(capsys.readouterr().out)
    assert content["classes"] == ["cat", "dog"]
    assert content["label_complexity"] < content["random_level"]
    assert (tmp_path / "out" / "measure" / "pets.png").exists()


def test_the_command_says_what_is_wrong_in_one_line(paths, tmp_path, capsys):
    with pytest.raises(SystemExit) as exit_:
        main(["measure", str(paths[0]), "--out", str(tmp_path / "out")])
    assert exit_.value.code == 2
    assert "unlazy: " in capsys.readouterr().err
    with pytest.raises(SystemExit) as exit_:
        main(["measure", str(paths[0]), "--y", "kind", "--out", str(tmp_path / "out")])
    assert exit_.value.code == 0
    assert "costliest rows" in capsys.readouterr().out
