# SPDX-License-Identifier: Apache-2.0
"""Files as they come: each is measured right, or refused in one line that says why."""

import gzip
import io
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from unlazy.core.errors import UnlazyError
from unlazy.laziness.label_report.files import measure_file

N = 40
RNG = np.random.default_rng(0)
A, B = RNG.standard_normal(N).round(3), RNG.integers(0, 100, N)
Y = np.where(A > 0, "cat", "dog")
ROWS = [f"{a},{b},{y}" for a, b, y in zip(A, B, Y, strict=True)]
PLAIN = "a,b,y\n" + "\n".join(ROWS) + "\n"


def _parquet(**columns: Any) -> bytes:
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pa.table(columns), buffer)
    return buffer.getvalue()


def _npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _with(column: str, values: Any) -> str:
    """The plain file with one more column in front."""
    lines = [f"{value},{row}" for value, row in zip(values, ROWS, strict=True)]
    return f"{column},a,b,y\n" + "\n".join(lines) + "\n"


def _index() -> str:
    frame = pd.DataFrame({"a": A, "b": B, "y": Y})
    return frame.to_csv()


DECIMAL = PLAIN.replace(",", ";").replace(".", ",")
QUOTED = PLAIN.replace("cat", '"a ""big""\ncat"')
# Each holds the same inputs and labels as the plain file: the same ratio must come out.
SAME = {
    "plain": ("p.csv", PLAIN),
    "windows line ends": ("p.csv", PLAIN.replace("\n", "\r\n")),
    "byte order mark": ("p.csv", "\ufeff" + PLAIN),
    "utf-16": ("p.csv", PLAIN.encode("utf-16")),
    "gzip": ("p.csv.gz", gzip.compress(PLAIN.encode())),
    "tabs": ("p.tsv", PLAIN.replace(",", "\t")),
    "tabs, packed": ("p.tsv.gz", gzip.compress(PLAIN.replace(",", "\t").encode())),
    "tabs in a csv": ("p.csv", PLAIN.replace(",", "\t")),
    "semicolons": ("p.csv", PLAIN.replace(",", ";")),
    "decimal commas": ("p.csv", DECIMAL),
    "bars": ("p.csv", PLAIN.replace(",", "|")),
    "capital ending": ("P.CSV", PLAIN),
    "quoted line breaks": ("p.csv", QUOTED),
    "spaces around names and labels": (
        "p.csv",
        PLAIN.replace("a,b,y", " a, b, y").replace("cat", " cat "),
    ),
    "no last line end": ("p.csv", PLAIN.rstrip("\n")),
    "the index of pandas": ("p.csv", _index()),
    "unnamed index": ("p.csv", _with("Unnamed: 0", range(N))),
    "identifiers": ("p.csv", _with("customer", range(1000, 1000 + N))),
    "names": ("p.csv", _with("name", [f"no. {i}" for i in range(N)])),
    "a constant": ("p.csv", _with("country", ["NO"] * N)),
    "an empty column": ("p.csv", _with("note", [""] * N)),
    "unicode": ("p.csv", PLAIN.replace("cat", "猫").replace("a,b,y", "größe,b,y")),
    "parquet": ("p.parquet", _parquet(a=A, b=B, y=Y)),
    "parquet of categories": ("p.parquet", _parquet(a=A, b=B, y=pa.array(Y).dictionary_encode())),
    "decimals in parquet": (
        "p.parquet",
        _parquet(a=pa.array(A).cast(pa.decimal128(8, 3)), b=B, y=Y),
    ),
    "identifiers as text in parquet": (
        "p.parquet",
        _parquet(a=A, b=B, customer=[f"{i}" for i in range(1000, 1000 + N)], y=Y),
    ),
    "lists in parquet": ("p.parquet", _parquet(a=A, b=B, c=[[1, 2]] * N, y=Y)),
    "npz": ("p.npz", _npz(x=np.column_stack([A, B]), y=Y)),
}
LABELS = [None, *Y[1:]]
UNKNOWN_ORDER = "looks like dates of an unknown order: convert it"
# Each is read; the function says what must hold.
READ = {
    "missing cells": (
        PLAIN.replace(f"{A[3]},", ",", 1),
        lambda r: r.columns[0].width == 2 and r.n == N,
    ),
    "missing labels": (
        PLAIN.replace(ROWS[4], f"{A[4]},{B[4]},"),
        lambda r: r.rows_unlabelled == 1 and len(r.classes) == 2 and r.n == N - 1,
    ),
    "question marks": (
        PLAIN.replace(ROWS[4], f"{A[4]},{B[4]},?"),
        lambda r: r.rows_unlabelled == 1 and len(r.classes) == 2,
    ),
    "repeated names": (
        PLAIN.replace("a,b,y", "a,a,y"),
        lambda r: [use.name for use in r.columns] == ["a", "a (2)"],
    ),
    "text": (
        _with("pet", ["u", "v"] * (N // 2)),
        lambda r: r.columns[0].use == "levels" and r.d == 3,
    ),
    "dates": (
        _with("day", [f"2020-01-{1 + 7 * i % 28:02d}" for i in range(N)]),
        lambda r: "date" in r.columns[0].reason,
    ),
    "currency": (
        _with("pay", [f'"${1000 + 7919 * i % 90000:,}"' for i in range(N)]),
        lambda r: r.columns[0][1:3] == ("number", 1) and "are left out" in r.columns[0].reason,
    ),
    "a line of names among the rows": (
        PLAIN + "a,b,cat\n" + "\n".join(f"{a}5,{b},{y}" for a, b, y in zip(A, B, Y, strict=True)),
        lambda r: [use[1:3] for use in r.columns] == [("number", 2)] * 2 and r.n == 2 * N + 1,
    ),
    "a word among numbers": (
        PLAIN.replace(f"{A[3]},", "a few,", 1).replace(ROWS[1], f"{A[1]},{B[1]},"),
        lambda r: "row 3 holds 'a few', which counts as missing; 1 missing" in r.columns[0].reason,
    ),
    "days of an unknown order": (
        _with("day", [f"{1 + i % 12:02d}/{1 + 5 * i % 11:02d}/{1990 + i}" for i in range(N)]),
        lambda r: r.columns[0][1:] == ("dropped", 0, UNKNOWN_ORDER),
    ),
    "wide": (
        ",".join(f"c{i}" for i in range(500))
        + ",y\n"
        + "\n".join(",".join([*map(str, RNG.random(500).round(3)), y]) for y in Y),
        lambda r: r.d == 500 and r.n == N,
    ),
    "null labels in parquet": (
        _parquet(a=A, b=B, y=pa.array(LABELS)),
        lambda r: r.rows_unlabelled == 1 and r.n == N - 1,
    ),
    "null categories in parquet": (
        _parquet(a=A, b=B, y=pa.array(LABELS).dictionary_encode()),
        lambda r: r.rows_unlabelled == 1 and len(r.classes) == 2,
    ),
    "repeated rows": (PLAIN + "\n".join(ROWS), lambda r: r.n == N and len(r.duplicates) == N),
}
REFUSED = {
    "empty": ("", "must hold a line of column names, got an empty file"),
    "blank": ("\n\n", "must hold a line of column names, got an empty file"),
    "names alone": ("a,b,y\n", "must hold one row at least"),
    "no names": (
        PLAIN.split("\n", 1)[1].replace("cat", "1").replace("dog", "0"),
        "first line of column names",
    ),
    "latin-1": (PLAIN.replace("cat", "\xe9").encode("latin-1"), "in UTF-8.* Save it in UTF-8"),
    "not text": (b"\0\1\2" * 100, "must be text in UTF-8"),
    "short rows": (PLAIN + "1,2\n", "Expected 3 columns, got 2"),
    "no such column": (
        PLAIN.replace("a,b,y", "a,b,label"),
        "`y` must be one of the columns.*, got y='y'. Known: a, b, label",
    ),
    "label twice": (PLAIN.replace("a,b,y", "a,y,y"), "'y', which occurs 2 times"),
    "no labels": ("a,y\n1,\n2,\n3,\n", "`y` must have a label in some row, got none in 3 rows"),
    "one class": ("a,y\n1,u\n2,u\n3,u\n", "two classes at least, got \\['u'\\]"),
    "infinite": (
        PLAIN.replace(f"{A[0]},", "inf,", 1),
        "finite or missing, got inf in the column 'a'",
    ),
    "no inputs": ("y\n" + "\n".join(Y) + "\n", "must have a column that says something"),
    "damaged gzip": (gzip.compress(PLAIN.encode())[:-12], "must be a whole gzip file"),
}


def report_of(file, content, tmp_path):
    path = tmp_path / file
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return measure_file(path, x=[], y="y")


@pytest.fixture(scope="module")
def plain_ratio(tmp_path_factory):
    return report_of("p.csv", PLAIN, tmp_path_factory.mktemp("plain")).ratio


@pytest.mark.parametrize("name", SAME)
def test_the_same_table_in_another_form_gives_the_same_report(name, tmp_path, plain_ratio):
    file, content = SAME[name]
    report = report_of(file, content, tmp_path)
    assert report.ratio == pytest.approx(plain_ratio, rel=1e-9)
    assert report.n == N
    assert len(report.classes) == 2


@pytest.mark.parametrize("name", READ)
def test_an_awkward_file_is_read_right(name, tmp_path):
    content, holds = READ[name]
    report = report_of("p.csv" if isinstance(content, str) else "p.parquet", content, tmp_path)
    assert holds(report), report


@pytest.mark.parametrize("name", REFUSED)
def test_what_can_not_be_measured_is_refused_in_one_line(name, tmp_path):
    content, message = REFUSED[name]
    file = "p.csv.gz" if name == "damaged gzip" else "p.csv"
    with pytest.raises(UnlazyError, match=message) as caught:
        report_of(file, content, tmp_path)
    assert file in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_of_another_ending_is_told_all_that_are_read(tmp_path):
    with pytest.raises(UnlazyError, match=r"must end in \.npz, \.csv, .*\.parquet, got \.txt"):
        report_of("wrong.txt", PLAIN, tmp_path)
