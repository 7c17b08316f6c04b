# SPDX-License-Identifier: Apache-2.0
import collections
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlazy.core.errors import DataFileError
from unlazy.data.pickles import read_pickled_dict

CALLED = []

# The same examples every time, and none of them timed: machines are shared.
FIXED = settings(derandomize=True, deadline=None)


def record_call():
    CALLED.append(True)


def read_back(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch"
        path.write_bytes(data)
        return read_pickled_dict(path)


def test_a_pickle_that_calls_a_function_is_refused_and_nothing_is_called():
    CALLED.clear()
    data = b"\x80\x02}U\x04datac" + __name__.encode() + b"\nrecord_call\n)Rs."
    with pytest.raises(DataFileError, match=r"found the global .*record_call, which was not"):
        read_back(data)
    assert not CALLED


@pytest.mark.parametrize(
    "name",
    ["os.system", "builtins.eval", "__builtin__.eval", "numpy.load", "numpy.core.multiarray.array"],
)
def test_globals_off_the_list_are_named(name):
    module, _, attribute = name.rpartition(".")
    data = b"\x80\x02c" + f"{module}\n{attribute}\n".encode() + b"."
    with pytest.raises(DataFileError, match=f"found the global {name}, which was not called"):
        read_back(data)


@pytest.mark.parametrize("value", [collections.OrderedDict(), Path("x"), {1, 2}, np.float64(1)])
def test_values_that_need_other_types_are_refused(value):
    with pytest.raises(DataFileError, match="must be a pickle of plain NumPy arrays"):
        read_back(pickle.dumps({"data": value}, protocol=2))


@pytest.mark.parametrize("array", [np.array([None, "x"]), np.zeros(2, "f8"), np.zeros(2, "i4,u1")])
def test_arrays_of_other_types_than_integers_are_refused(array):
    with pytest.raises(DataFileError, match=r"found an array of type '(O8|f8|V5)', which was not"):
        read_back(pickle.dumps({"data": array}, protocol=2))


def test_an_encoding_other_than_for_bytes_is_refused():
    data = b"\x80\x02c_codecs\nencode\nX\x01\0\0\0aX\x05\0\0\0rot13\x86R."
    with pytest.raises(DataFileError, match="found the encoding 'rot13'"):
        read_back(data)


def test_a_memo_beyond_the_file_is_refused_before_python_allocates_it():
    """LONG_BINPUT 2^31 - 1: CPython would make a table of 32 GB."""
    with pytest.raises(DataFileError, match="an entry 2147483647 of the memo, in 9 bytes"):
        read_back(b"\x80\x02}r\xff\xff\xff\x7f.")


def test_text_is_encoded_once():
    text = b"X\x10\x27\0\0" + b"a" * 10_000
    again = b"h\x01h\x00X\x06\0\0\0latin1\x86R0"
    data = b"\x80\x02" + text + b"q\x000c_codecs\nencode\nq\x010" + again * 9 + b"}."
    with pytest.raises(DataFileError, match="text that is encoded again and again"):
        read_back(data)


@pytest.mark.parametrize("dtype", ["u1", "<i8", ">i4", ">u2"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_come_back_as_they_were(dtype, order):
    array = np.arange(12).reshape(3, 4).astype(dtype, order=order)
    found = read_back(pickle.dumps({"data": array, "n": 3}, protocol=2))
    np.testing.assert_array_equal(found["data"], array)
    assert found["data"].dtype == array.dtype
    assert found["n"] == 3


def test_strings_of_python_2_come_back_as_bytes(python2_batch_bytes):
    images = np.arange(6, dtype=np.uint8).reshape(2, 3)
    found = read_back(python2_batch_bytes(images, [1, 2]))
    np.testing.assert_array_equal(found[b"data"], images)
    assert found[b"labels"] == [1, 2]


@FIXED
@given(data=st.data())
def test_any_truncation_is_refused(data, python2_batch_bytes):
    whole = python2_batch_bytes(np.arange(6, dtype=np.uint8).reshape(2, 3), [1, 2])
    kept = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DataFileError, match="must be a complete pickle"):
        read_back(whole[:kept])


def test_something_else_than_a_dict_is_refused():
    with pytest.raises(DataFileError, match="must hold a dict, found a list"):
        read_back(pickle.dumps([1, 2]))
