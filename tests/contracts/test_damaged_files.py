# SPDX-License-Identifier: Apache-2.0
"""Files of every format, damaged at random: each is read, or refused in one line that names it.

Where the format has a checksum, what is read is what was written. All runs within a bound on the
memory, so that a damaged length cannot ask for more.
"""

import contextlib
import gzip
import io
import pickle
import resource
import struct
import time
import warnings
import zipfile
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from numpy.lib import format as npy

from unlazy.core.errors import DataFileError
from unlazy.data import limits, read_table
from unlazy.data.image_files import read_idx, read_record_split

MOST_MEMORY = 2**30  # bytes that reading a file of a few kilobytes may ask for
MOST_SECONDS = 20  # for any one file; the machine may be busy


class Format(NamedTuple):
    file: str
    content: bytes
    has_checksum: bool


def _npz(**arrays):
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _compressed_npz(**arrays):
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def _arrow(write, table):
    buffer = io.BytesIO()
    write(table, buffer)
    return buffer.getvalue()


def _formats():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((20, 3)), rng.integers(0, 2, 20)
    table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": np.arange(20), "y": y.astype(str)})
    labels = rng.integers(0, 10, 40).astype(np.uint8)
    images = rng.integers(0, 256, (3, 3072)).astype(np.uint8)
    labels_idx = b"\0\0\x08\x01" + struct.pack(">I", 40) + labels.tobytes()
    images_idx = b"\0\0\x08\x03" + struct.pack(">3I", 4, 5, 6) + rng.bytes(120)
    return {
        "npz": Format("some.npz", _npz(x=x, y=y), True),
        "compressed npz": Format("some.npz", _compressed_npz(x=x, y=y), True),
        "csv": Format("some.csv", _arrow(pyarrow.csv.write_csv, table), False),
        "parquet": Format("some.parquet", _arrow(pyarrow.parquet.write_table, table), False),
        "idx": Format("some-labels", labels_idx, False),
        "gzipped idx": Format("some-labels.gz", gzip.compress(labels_idx, mtime=0), True),
        "idx of images": Format("some-images", images_idx, False),
        "cifar": Format("some.bin", np.column_stack([labels[:3], images]).tobytes(), False),
    }


FORMATS = _formats()


def read(path):
    """The arrays in a file, by the reader that its name calls for."""
    if path.suffix in (".npz", ".csv", ".parquet"):
        return read_table(path)
    if path.name.startswith("some-images"):
        return (read_idx(path, 3),)
    if path.name.startswith("some-labels"):
        return (read_idx(path, 1),)
    return read_record_split([path])


def damaged(content, rng):
    """The content with bits flipped, a part cut, repeated, overwritten or inserted."""
    data = bytearray(content)
    start = int(rng.integers(len(data)))
    # Lengths and offsets are at both ends; most of the rest is data.
    if rng.random() < 0.5:
        start = min(int(rng.exponential(60)), len(data) - 1)
        start = start if rng.random() < 0.5 else len(data) - 1 - start
    stop = start + 1 + int(rng.exponential(8))
    match rng.integers(8):
        case 0 | 1:
            data[start] ^= 1 << int(rng.integers(8))
        case 2:
            for at in rng.integers(0, len(data), 5):
                data[at] ^= 1 << int(rng.integers(8))
        case 3:
            del data[start:]
        case 4:
            del data[start:stop]
        case 5:
            data[start:start] = data[start:stop]
        case 6:
            data[start:stop] = bytes([int(rng.choice([0, 0x7F, 0xFF]))]) * (stop - start)
        case 7:
            data[start:start] = rng.bytes(stop - start)
    return bytes(data)


@contextlib.contextmanager
def bounded(memory):
    """Refuse allocations beyond `memory` bytes more than the process has now."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def complaint(path, expected=None):
    """What is wrong with how a file was read or refused; None when all is well."""
    started = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = read(path)
    except DataFileError as error:
        text = str(error)
        if path.name not in text or "\n" in text or len(text) > 1000:
            return f"unclear: {text[:2000]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    else:
        if expected is not None:
            for array, other in zip(found, expected, strict=True):
                if array.shape != other.shape or not np.array_equal(array, other):
                    return "read, but changed"
    seconds = time.monotonic() - started
    return f"took {seconds:.0f} s" if seconds > MOST_SECONDS else None


def complaints(name, count, folder, seed):
    file, content, has_checksum = FORMATS[name]
    path = folder / file
    path.write_bytes(content)
    whole = read(path)
    rng = np.random.default_rng(seed)
    found = []
    with bounded(MOST_MEMORY):
        for number in range(count):
            path.write_bytes(damaged(content, rng))
            if problem := complaint(path, whole if has_checksum else None):
                found.append(f"{number}: {problem}")
    return found


@pytest.mark.parametrize("name", FORMATS)
def test_a_damaged_file_is_read_or_refused_in_one_line(name, tmp_path):
    assert not complaints(name, 40, tmp_path, seed=1)


def _npy(array, **changes):
    """An npy file, with other entries in its header than the array's."""
    buffer = io.BytesIO()
    header = npy.header_data_from_array_1_0(np.asarray(array)) | changes
    npy.write_array_header_1_0(buffer, header)
    return buffer.getvalue() + np.asarray(array).tobytes()


def _archive(members, **options):
    buffer = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(buffer, "w", **options) as archive:
        warnings.simplefilter("ignore")  # at names that are there twice
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


X, Y = np.arange(1.0, 13).reshape(4, 3), np.arange(4) % 2
FORGED = {
    "more rows than data": (_npy(X, shape=(5, 3)), "120 bytes for the array 'x' .* truncated"),
    "fewer rows": (_npy(X, shape=(3, 3)), "72 bytes for the array 'x' .* followed by other"),
    "terabytes": (_npy(X, shape=(10**9, 10**3)), "8000000000000 bytes .* truncated"),
    "beyond 64 bits": (_npy(X, shape=(10**30, 3)), "truncated"),
    "nothing, often": (_npy(X[:0], shape=(10**30, 0)), "'x' a whole array"),
    "negative": (_npy(X, shape=(-4, -3)), "a shape of .*-4"),
    "no size": (_npy(X[:0], shape=(10**18,), descr="|S0"), "'x' must hold real numbers"),
    "objects": (_npy(X, descr="|O"), "'x' must hold real numbers, got dtype=object"),
    "another dtype": (_npy(X, descr="<f4"), "48 bytes for the array 'x' .* followed"),
    "no dtype": (_npy(X, descr="<f7"), "'x' a whole array: .*not a valid dtype"),
    "another version": (b"\x93NUMPY\x09\0" + _npy(X)[8:], r"version \(9, 0\)"),
    "no header": (_npy(X)[:20], "'x' a whole array"),
    "empty": (b"", "'x' a whole array"),
    "a program": (pickle.dumps(print), "'x' a whole array"),
}


@pytest.mark.parametrize("name", FORGED)
def test_an_npz_with_a_forged_header_is_refused(name, tmp_path):
    content, message = FORGED[name]
    path = tmp_path / "some.npz"
    path.write_bytes(_archive([("x.npy", content), ("y.npy", _npy(Y))]))
    with bounded(MOST_MEMORY), pytest.raises(DataFileError, match=f"some.npz.*{message}"):
        read_table(path)
    assert complaint(path) is None


def test_an_npz_with_a_name_twice_or_not_of_its_kind_is_refused(tmp_path):
    path = tmp_path / "some.npz"
    members = [("x.npy", _npy(X)), ("x.npy", _npy(2 * X)), ("y.npy", _npy(Y))]
    for content, message in [
        (_archive(members), "got x='x', which occurs 2 times"),
        (_npy(X), "must be an npz file of plain arrays: File is not a zip file"),
        (gzip.compress(_archive(members[1:])), "must be an npz file of plain arrays"),
        (b"", "must be an npz file of plain arrays"),
    ]:
        path.write_bytes(content)
        with pytest.raises(DataFileError, match=message):
            read_table(path)


def test_an_npz_that_does_not_fit_in_memory_as_numbers_is_refused(tmp_path, monkeypatch):
    """A byte in the file is eight as float64."""
    path = tmp_path / "some.npz"
    np.savez_compressed(path, x=np.ones((2**10, 2**8), np.uint8), y=np.arange(2**10) % 2)
    monkeypatch.setattr(limits, "available_memory", lambda: 2**21)
    with pytest.raises(
        DataFileError, match=r"some.npz.* must fit in memory: the array 'x' .* 2.25"
    ):
        read_table(path)
    monkeypatch.setattr(limits, "available_memory", lambda: 2**22)
    assert read_table(path).x.shape == (2**10, 2**8)


def test_a_folder_in_place_of_a_file_is_named(tmp_path):
    for file in ("some.npz", "some.csv", "some.parquet", "some-labels", "some.bin"):
        (tmp_path / file).mkdir()
        assert complaint(tmp_path / file) is None
        with pytest.raises(DataFileError):
            read(tmp_path / file)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_many_damaged_files_are_read_or_refused_in_one_line(name, tmp_path):
    assert not complaints(name, 1000, tmp_path, seed=2)
