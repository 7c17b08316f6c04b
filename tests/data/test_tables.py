# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from unlazy.cli import main
from unlazy.core.errors import DataFileError
from unlazy.data import read_frame, read_table
from unlazy.laziness import measure


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


def test_a_path_may_be_text(paths):
    for path in paths[:2]:
        assert read_frame(str(path)).equals(read_frame(path))


def test_three_formats_hold_the_same(paths):
    tables = [read_table(path, y="kind") for path in paths]
    for other in tables[1:]:
        np.testing.assert_allclose(other.x, tables[0].x, rtol=1e-12)
        assert other.y.tolist() == tables[0].y.tolist()
    assert tables[0].x.shape == (50, 3)


def test_columns_are_chosen_by_name(paths, table):
    chosen = read_table(str(paths[0]), x=["age", "height"], y="kind")
    np.testing.assert_allclose(chosen.x[:, 0], table["age"].to_numpy(), rtol=1e-12)
    assert chosen.x.shape == (50, 2)


def test_each_mistake_has_its_line(paths, tmp_path):
    csv, parquet, npz = paths
    cases = [
        (tmp_path / "none.csv", {}, "must be a file"),
        (tmp_path / "pets.xlsx", {}, "must end in .npz, .csv, .tsv, .*parquet"),
        (csv, {"y": "knid"}, "Did you mean 'kind'"),
        (csv, {"y": "kind", "x": ["note"]}, "must be numeric columns .* got note"),
        (parquet, {"y": "kind", "x": ["heigth"]}, "Did you mean 'height'"),
        (npz, {"y": "label"}, "must be one of the columns or arrays, got y='label'"),
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


X = np.random.default_rng(1).standard_normal((30, 4))
Y = X[:, 0] > 0


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ">f8", ">f4", "i8", ">i2", "u1", "?", "g"])
def test_an_npz_of_any_real_dtype_and_order_is_read_exactly(dtype, tmp_path):
    path = tmp_path / "some.npz"
    x = np.abs(100 * X).astype(dtype)
    labels = [Y, Y.astype(">u2"), Y.astype(float), Y.astype(str), Y[:, None], Y.astype("M8[D]")]
    orders = np.ascontiguousarray, np.asfortranarray
    for save, order, y in itertools.product([np.savez, np.savez_compressed], orders, labels):
        save(path, x=order(x.reshape(30, 2, 2)), y=y)
        found = read_table(path)
        assert found.x.dtype == np.float64
        np.testing.assert_array_equal(found.x, x.astype(np.float64))
        np.testing.assert_array_equal(found.y, y)


@pytest.mark.parametrize(
    ("name", "array", "dtype"),
    [
        ("x", X + 1j, "complex128"),
        ("x", X.astype(str), "<U32"),
        ("x", (9 * X).astype("M8[D]"), r"datetime64\[D\]"),
        ("x", np.zeros(30, "i4,i4"), r"\[\('f0', '<i4'\)"),
        ("y", Y + 1j, "complex128"),
        ("y", Y.astype(object), "object"),
    ],
)
def test_arrays_of_other_kinds_are_refused_by_name(name, array, dtype, tmp_path):
    path = tmp_path / "some.npz"
    np.savez(path, **({"x": X, "y": Y} | {name: array}))
    with pytest.raises(DataFileError, match=rf"some.npz.*array '{name}' must .* got dtype={dtype}"):
        read_table(path)


@pytest.mark.parametrize(
    ("arrays", "arguments", "message"),
    [
        ({"x": 1.0, "y": Y}, {}, "must hold rows as 'x'"),
        ({"x": X[:0], "y": Y[:0]}, {}, r"one label for each row .* inputs of shape \(0, 4\)"),
        ({"x": X, "y": Y[1:]}, {}, r"one label for each row .* labels of shape \(29,\)"),
        ({"x": X, "y": 1}, {}, r"labels of shape \(\)"),
        ({"x": X, "z": X, "y": Y}, {"x": ["x", "z"]}, "`x` must be one array of .* got x=x, z"),
    ],
)
def test_arrays_that_do_not_fit_are_named(arrays, arguments, message, tmp_path):
    np.savez(tmp_path / "some.npz", **arrays)
    with pytest.raises(DataFileError, match=message):
        read_table(tmp_path / "some.npz", **arguments)


ROWS = [f"{a},{b},{'cat' if c else 'dog'}" for (a, b, *_), c in zip(X, Y, strict=True)]
PETS = np.where(Y, "cat", "dog").tolist()


@pytest.mark.parametrize(
    ("content", "labels"),
    [
        ("\ufeffa,b,y\r\n" + "\r\n".join(ROWS), PETS),
        ("a,a,y\n" + "\n".join(ROWS), PETS),  # twice the same name
        (",,y\n" + "\n".join(ROWS), PETS),
        ('"a, b",b,y\n' + "\n".join(ROWS).replace("cat", '"c ""a""\nt"'), None),
    ],
)
def test_unusual_csv_files_are_read(content, labels, tmp_path):
    path = tmp_path / "some.csv"
    path.write_text(content)
    found = read_table(path)
    np.testing.assert_allclose(found.x, X[:, :2], rtol=1e-12)
    other = {"cat": 'c "a"\nt'}
    assert found.y.tolist() == (labels or [other.get(pet, pet) for pet in PETS])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\xe9,y\n1,2\n", "some.csv` must be a csv file in UTF-8"),
        (b"a,y,y\n1,2,3\n", "got y='y', which occurs 2 times"),
        (b"a,b,y\n1,2,3\n1,2\n", "some.csv` must be a csv file: .*Expected 3 columns, got 2"),
        (b"", "some.csv` must hold a line of column names, got an empty file"),
        (b"a,y\n", r"some.csv` must hold one row at least, got \(0, 2\)"),
        (b",".join(b"c%d" % i for i in range(300)) + 2 * (b"\n" + 299 * b"1,"), "c99 and 200 more"),
        ("a,b,y\n1,2,\xe9\n1,2,e\n".encode("latin-1"), "some.csv` must be a csv file in UTF-8"),
    ],
)
def test_csv_files_that_can_not_be_read_say_why(content, message, tmp_path):
    path = tmp_path / "some.csv"
    path.write_bytes(content)
    with pytest.raises(DataFileError, match=message):
        read_table(path)


def test_rows_without_a_label_in_a_parquet_are_left_out(tmp_path):
    labels = pa.array([None, *PETS[1:4], None, *PETS[5:]])
    path = tmp_path / "some.parquet"
    for y in (labels, labels.dictionary_encode()):
        pyarrow.parquet.write_table(pa.table({"a": X[:, 0], "y": y}), path)
        found = read_table(path)
        assert found.y.tolist() == labels.to_pylist()
        assert measure(found.x, found.y).rows_unlabelled == 2


def test_a_damaged_file_is_one_line_and_exit_code_2(paths, tmp_path, capsys):
    content = bytearray(paths[2].read_bytes())
    content[len(content) // 2] ^= 1
    paths[2].write_bytes(content)
    with pytest.raises(SystemExit) as exit_:
        main(["measure", str(paths[2]), "--y", "kind", "--out", str(tmp_path / "out")])
    assert exit_.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("unlazy: ")
    assert "pets.npz" in line


# A row above a megabyte was an error, and one after which Python did not exit.
WIDE = """
from pathlib import Path
from unlazy.core.errors import DataFileError
from unlazy.data import frames, read_table
path = Path("wide.csv")
row = ",".join(["0." + 1200 * "3"] * 2000)
path.write_text(",".join(f"c{i}" for i in range(2000)) + f",y\\n{row},cat\\n{row},dog\\n")
assert read_table(path).x.shape == (2, 2000)
frames._BLOCK_SIZES = 2**16, 2**16
try:
    read_table(path)
except DataFileError as error:
    print(error)
"""


def test_rows_of_more_than_a_megabyte_are_read_and_python_exits(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", WIDE], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "`wide.csv` must be a csv file: straddling object" in done.stdout


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
