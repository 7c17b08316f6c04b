# SPDX-License-Identifier: Apache-2.0
import tempfile
from pathlib import Path

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
from hypothesis import given, settings

from unlazy.experiments.tables import read_arrays, read_table, table_bytes, write_arrays

NUMBERS = ["?", "i1", "i4", "i8", "u1", "u8", "f2", "f4", "f8", ">f8", ">i4"]
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 5))
    names = draw(st.lists(st.sampled_from("abcdef"), unique=True, max_size=4))
    columns = {}
    for name in names:
        if draw(st.booleans()):
            columns[name] = draw(npst.arrays(draw(st.sampled_from(NUMBERS)), rows))
        else:
            columns[name] = np.array(draw(st.lists(TEXT, min_size=rows, max_size=rows)), dtype=str)
    return columns


def arrays():
    dtypes = st.sampled_from([*NUMBERS, "c16", "U3", "S2"])
    array = dtypes.flatmap(lambda d: npst.arrays(d, npst.array_shapes(min_dims=0, min_side=0)))
    return st.dictionaries(st.sampled_from(["x", "file", "Gram matrix", "θ"]), array, max_size=3)


def same(a, b):
    """Equal to the bit, nan and the sign of zero included."""
    kind = a.dtype.newbyteorder("=")
    return a.shape == b.shape and a.astype(kind).tobytes() == b.astype(kind).tobytes()


@settings(max_examples=60, deadline=None)
@given(tables())
def test_a_table_comes_back_as_it_was(table):
    with tempfile.TemporaryDirectory(prefix="a=b") as folder:  # like a partition, which it is not
        path = Path(folder) / "table.parquet"
        path.write_bytes(table_bytes(table))
        back = read_table(path)
    assert list(back) == list(table)
    for name, column in table.items():
        if column.dtype.kind == "U":
            assert back[name].dtype.kind == "U"
            assert back[name].tolist() == column.tolist()
        else:
            assert back[name].dtype == column.dtype.newbyteorder("=")
            assert same(column, back[name])
        assert back[name].flags.writeable


@settings(max_examples=60, deadline=None)
@given(arrays())
def test_arrays_come_back_as_they_were(arrays):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arrays.npz"
        with path.open("wb") as file:
            write_arrays(file, arrays)
        back = read_arrays(path)
    assert set(back) == set(arrays)
    for name, array in arrays.items():
        assert back[name].dtype == array.dtype
        assert back[name].shape == array.shape
        assert back[name].tobytes() == array.tobytes()


def test_arrays_in_another_order_give_the_same_bytes(tmp_path):
    a, b = np.arange(3), np.eye(2)
    for name, arrays in (("one", {"a": a, "b": b}), ("two", {"b": b, "a": a})):
        with (tmp_path / name).open("wb") as file:
            write_arrays(file, arrays)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
