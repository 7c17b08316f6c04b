# SPDX-License-Identifier: Apache-2.0
import gzip
import re
import struct
import tempfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from unlazy.core.errors import DataFileError
from unlazy.data import limits
from unlazy.data.image_files import PIXELS, read_idx, read_idx_split, read_record_split

ARRAYS = hnp.arrays(np.uint8, hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5))

# The same examples every time, and none of them timed: machines are shared.
FIXED = settings(derandomize=True, deadline=None)


def read_back(data, ndim):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "some-idx-ubyte"
        path.write_bytes(data)
        return read_idx(path, ndim)


@FIXED
@given(array=ARRAYS, gz=st.booleans())
def test_reading_what_was_written_is_the_identity(array, gz, idx_bytes):
    data = idx_bytes(array)
    found = read_back(gzip.compress(data) if gz else data, array.ndim)
    assert found.shape == array.shape
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, array)


@FIXED
@given(array=ARRAYS, gz=st.booleans(), data=st.data())
def test_any_truncation_is_refused(array, gz, data, idx_bytes):
    whole = gzip.compress(idx_bytes(array)) if gz else idx_bytes(array)
    kept = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(DataFileError, match="some-idx-ubyte must"):
        read_back(whole[:kept], array.ndim)


@FIXED
@given(array=ARRAYS, extra=st.binary(min_size=1, max_size=9))
def test_any_trailing_bytes_are_refused(array, extra, idx_bytes):
    with pytest.raises(DataFileError, match=f"{array.size} bytes.*found {array.size + len(extra)}"):
        read_back(idx_bytes(array) + extra, array.ndim)


@FIXED
@given(array=ARRAYS, data=st.data())
def test_a_flipped_bit_in_a_gzip_file_never_changes_the_array(array, data, idx_bytes):
    """It raises, or, in the parts of the header that mean nothing (a date), does no harm."""
    whole = bytearray(gzip.compress(idx_bytes(array)))
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= 1 << data.draw(st.integers(0, 7))
    try:
        found = read_back(bytes(whole), array.ndim)
    except DataFileError:
        return
    np.testing.assert_array_equal(found, array)


def test_a_flipped_bit_in_the_compressed_data_is_refused(idx_bytes):
    array = np.random.default_rng(0).integers(0, 256, (20, 20), dtype=np.uint8)
    whole = bytearray(gzip.compress(idx_bytes(array)))
    whole[len(whole) // 2] ^= 1
    with pytest.raises(DataFileError, match="must be a complete gzip file"):
        read_back(bytes(whole), 2)


@pytest.mark.parametrize(
    ("header", "found"),
    [
        (b"", "nothing"),
        (b"\x89PNG", "89 50 4e 47"),
        (b"\0\0\x0d\1", "00 00 0d 01"),  # float32 entries
        (b"\0\0\x08\3", "00 00 08 03"),  # three dimensions where one is expected
    ],
)
def test_a_header_of_another_kind_is_refused(header, found):
    with pytest.raises(DataFileError, match=f"00 00 08 01.*found {found}"):
        read_back(header, 1)


def test_a_header_that_promises_too_much_is_refused_without_the_memory_for_it():
    with pytest.raises(DataFileError, match="must hold 18446744065119617025 bytes"):
        read_back(b"\0\0\x08\2" + b"\xff" * 8 + b"some", 2)


def _traced_peak(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_no_more_is_unpacked_than_the_header_promises(tmp_path):
    """64 MB of zeros in 64 kB, after a header for 100 labels."""
    path = tmp_path / "labels.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\1\0\0\0\x64" + bytes(2**26)))

    def refused():
        with pytest.raises(DataFileError, match=r"labels.gz must hold 100 bytes .*, found more"):
            read_idx(path, 1)

    assert _traced_peak(refused) < 2**22


@pytest.mark.parametrize(
    ("dimensions", "message"),
    [
        ((2**26,), "expected 6 labels, found 67108864"),  # what the file holds, but not the set
        ((2**32 - 1,), "expected 6 labels, found 4294967295"),
    ],
)
def test_labels_of_another_set_are_refused_before_they_are_unpacked(
    dimensions, message, tmp_path, idx_bytes, make_split
):
    images, _ = make_split(6, (2, 3), seed=1)
    (tmp_path / "images").write_bytes(idx_bytes(images))
    header = b"\0\0\x08\1" + struct.pack(">I", *dimensions)
    (tmp_path / "labels").write_bytes(gzip.compress(header + bytes(2**26)))

    def refused():
        with pytest.raises(DataFileError, match=message):
            read_idx_split(tmp_path / "images", tmp_path / "labels")

    assert _traced_peak(refused) < 2**22


def test_a_packed_header_that_promises_too_much_is_refused_without_the_memory_for_it():
    data = gzip.compress(b"\0\0\x08\3" + b"\x7f" * 12 + b"some")
    with pytest.raises(DataFileError, match=r"must hold \d{28} bytes .* truncated"):
        read_back(data, 3)


def test_an_array_that_does_not_fit_in_memory_is_refused(monkeypatch, idx_bytes):
    monkeypatch.setattr(limits, "available_memory", lambda: 2**20)
    data = gzip.compress(idx_bytes(np.zeros(2**21, np.uint8)))
    with pytest.raises(DataFileError, match=r"must fit in memory: .* takes 2 MiB, and 1 MiB"):
        read_back(data, 1)


def test_images_come_flat_with_their_labels(tmp_path, idx_bytes, make_split):
    images, labels = make_split(6, (2, 3), seed=1)
    (tmp_path / "images").write_bytes(idx_bytes(images))
    (tmp_path / "labels").write_bytes(idx_bytes(labels))
    split = read_idx_split(tmp_path / "images", tmp_path / "labels")
    np.testing.assert_array_equal(split.images, images.reshape(6, 6))
    np.testing.assert_array_equal(split.labels, labels)


def test_another_number_of_labels_than_images_is_refused(tmp_path, idx_bytes, make_split):
    images, labels = make_split(6, (2, 3), seed=1)
    (tmp_path / "images").write_bytes(idx_bytes(images))
    (tmp_path / "labels").write_bytes(idx_bytes(labels[:5]))
    with pytest.raises(DataFileError, match=r"labels must hold .* expected 6 labels, found 5"):
        read_idx_split(tmp_path / "images", tmp_path / "labels")


def test_a_label_above_nine_is_refused_by_row(tmp_path, idx_bytes, make_split):
    images, labels = make_split(6, (2, 3), seed=1)
    labels[4] = 10
    (tmp_path / "images").write_bytes(idx_bytes(images))
    (tmp_path / "labels").write_bytes(idx_bytes(labels))
    with pytest.raises(DataFileError, match=r"labels from 0 to 9, found 10 .* row 4"):
        read_idx_split(tmp_path / "images", tmp_path / "labels")


def test_a_file_that_can_not_be_read_is_named(tmp_path):
    with pytest.raises(DataFileError, match=re.escape(f"{tmp_path / 'gone'} could not be read")):
        read_idx(tmp_path / "gone", 1)


def read_records(data):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batch.bin"
        path.write_bytes(data)
        return read_record_split([path])


@FIXED
@given(n=st.integers(1, 4), seed=st.integers(0, 2**32 - 1))
def test_reading_records_that_were_written_is_the_identity(n, seed, cifar_bytes, make_split):
    images, labels = make_split(n, (PIXELS,), seed=seed)
    split = read_records(cifar_bytes(images, labels))
    np.testing.assert_array_equal(split.images, images)
    np.testing.assert_array_equal(split.labels, labels)


@FIXED
@given(size=st.integers(0, 2 * (PIXELS + 1) - 1).filter(lambda s: s != PIXELS + 1))
def test_an_incomplete_record_is_refused(size):
    records, rest = divmod(size, PIXELS + 1)
    with pytest.raises(DataFileError, match=f"found {size} bytes: {records} records and {rest} "):
        read_records(bytes(size))


@pytest.mark.parametrize("label", [10, 255])
def test_a_record_with_a_label_above_nine_is_refused(label, cifar_bytes, make_split):
    images, labels = make_split(3, (PIXELS,), seed=0)
    labels[2] = label
    with pytest.raises(DataFileError, match=f"batch.bin must .* found {label} .* row 2"):
        read_records(cifar_bytes(images, labels))


def test_batches_are_put_together_in_order(tmp_path, write_cifar_set, make_split):
    first, second = (make_split(n, (PIXELS,), seed=n) for n in (2, 3))
    write_cifar_set(tmp_path / "x-bin", [first, second], first)
    split = read_record_split([tmp_path / "x-bin" / f"data_batch_{i}.bin" for i in (2, 1)])
    np.testing.assert_array_equal(split.images, np.concatenate([second[0], first[0]]))
    np.testing.assert_array_equal(split.labels, np.concatenate([second[1], first[1]]))
