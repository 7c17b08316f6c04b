# SPDX-License-Identifier: Apache-2.0
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlazy.core.errors import DataFileError
from unlazy.data.cifar import PIXELS, read_batch, read_binary, read_split

# The same examples every time, and none of them timed: machines are shared.
FIXED = settings(derandomize=True, deadline=None)


def read_back(reader, data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch.bin"
        path.write_bytes(data)
        return reader(path)


@FIXED
@given(n=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_reading_records_that_were_written_is_the_identity(n, seed, cifar_bytes, make_split):
    images, labels = make_split(n, (PIXELS,), seed=seed)
    split = read_back(read_binary, cifar_bytes(images, labels))
    np.testing.assert_array_equal(split.images, images)
    np.testing.assert_array_equal(split.labels, labels)


@FIXED
@given(size=st.integers(0, 2 * (PIXELS + 1) - 1).filter(lambda s: s != PIXELS + 1))
def test_an_incomplete_record_is_refused(size):
    records, rest = divmod(size, PIXELS + 1)
    with pytest.raises(DataFileError, match=f"found {size} bytes: {records} records and {rest} "):
        read_back(read_binary, bytes(size))


@pytest.mark.parametrize("label", [10, 255])
def test_a_record_with_a_label_above_nine_is_refused(label, cifar_bytes, make_split):
    images, labels = make_split(3, (PIXELS,), seed=0)
    labels[2] = label
    with pytest.raises(DataFileError, match=f"batch.bin must .* found {label} .* row 2"):
        read_back(read_binary, cifar_bytes(images, labels))


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("kind", [list, np.array])
def test_a_batch_pickled_by_python_3_is_read(protocol, kind, make_split):
    images, labels = make_split(4, (PIXELS,), seed=2)
    batch = {"data": np.asfortranarray(images), "labels": kind(labels.tolist())}
    split = read_back(read_batch, pickle.dumps(batch, protocol=protocol))
    np.testing.assert_array_equal(split.images, images)
    np.testing.assert_array_equal(split.labels, labels)
    assert split.labels.dtype == np.uint8


def test_a_batch_pickled_by_python_2_is_read(python2_batch_bytes, make_split):
    images, labels = make_split(4, (PIXELS,), seed=3)
    split = read_back(read_batch, python2_batch_bytes(images, labels))
    np.testing.assert_array_equal(split.images, images)
    np.testing.assert_array_equal(split.labels, labels)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"data": None}, "an array as `data`, found <class 'NoneType'>"),
        ({"data": np.zeros((2, PIXELS))}, "an array of type 'f8'"),
        ({"data": np.zeros((2, PIXELS), np.int64)}, "found int64"),
        ({"data": np.zeros((2, 5), np.uint8)}, r"found uint8 and shape \(2, 5\)"),
        ({"data": np.zeros((0, PIXELS), np.uint8)}, r"found uint8 and shape \(0, 3072\)"),
        ({"labels": [1]}, "must hold 2 `labels`, one an image, found 1"),
        ({"labels": 7}, "must hold 2 `labels`, one an image, found <class 'int'>"),
        ({"labels": np.array(3)}, "one an image, found <class 'numpy.ndarray'>"),
        ({"labels": np.array([[1], [2]])}, "one an image, found <class 'numpy.ndarray'>"),
        ({"labels": [1, "two"]}, "integers as `labels`"),
        ({"labels": [[1], [2]]}, "integers as `labels`"),
        ({"labels": [1, -1]}, "labels from 0 to 9, found -1 .* row 1"),
        ({"labels": [10, 2**70]}, "labels from 0 to 9, found 10 .* rows 0 and 1"),
    ],
)
def test_a_batch_with_other_contents_is_refused(change, message):
    batch = {"data": np.ones((2, PIXELS), np.uint8), "labels": [0, 1]} | change
    with pytest.raises(DataFileError, match=message):
        read_back(read_batch, pickle.dumps(batch, protocol=4))


def test_a_batch_without_labels_is_refused():
    with pytest.raises(DataFileError, match="an entry `labels`, found the entries: b'data'"):
        read_back(read_batch, pickle.dumps({b"data": np.ones((1, PIXELS), np.uint8)}, protocol=2))


def test_batches_are_put_together_in_order(tmp_path, write_cifar_set, make_split):
    first, second = (make_split(n, (PIXELS,), seed=n) for n in (2, 3))
    write_cifar_set(tmp_path / "x-bin", [first, second], first)
    split = read_split([tmp_path / "x-bin" / f"data_batch_{i}.bin" for i in (2, 1)])
    np.testing.assert_array_equal(split.images, np.concatenate([second[0], first[0]]))
    np.testing.assert_array_equal(split.labels, np.concatenate([second[1], first[1]]))
