# SPDX-License-Identifier: Apache-2.0
"""The two formats of image files: idx, of MNIST and its kin, and the records of CIFAR-10."""

import gzip
import io
import math
import struct
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import UInt8

from unlazy.core.checks import some_rows
from unlazy.core.errors import DataFileError
from unlazy.data.limits import DEFLATE_RATIO, check_memory, in_short

CLASSES = 10  # every set here has the classes 0 to 9
PIXELS = 3 * 32 * 32  # of a CIFAR-10 image: the red, green and blue planes, each row by row
_RECORD = 1 + PIXELS  # the label first
_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08


class Split(NamedTuple):
    """Flattened images and their classes in file order, of the training or of the test part."""

    images: UInt8[np.ndarray, "n d"]
    labels: UInt8[np.ndarray, " n"]


def read_idx_split(images: Path, labels: Path) -> Split:
    """Read the images and the labels of one part of a set, from their two files."""
    x = read_idx(images, 3)
    y = read_idx(labels, 1, rows=len(x))
    _check_labels(y, labels)
    return Split(x.reshape(len(x), math.prod(x.shape[1:])), y)


def read_record_split(paths: list[Path]) -> Split:
    """Read batches of CIFAR-10 and put them together in the order given."""
    tables = [_read_records(path) for path in paths]
    table = tables[0] if len(tables) == 1 else np.concatenate(tables)
    return Split(table[:, 1:], table[:, 0])


def read_idx(path: Path, ndim: int, *, rows: int | None = None) -> UInt8[np.ndarray, "..."]:
    """Read an array of unsigned bytes with `ndim` dimensions from an idx file, gzipped or not.

    The header is two zero bytes, a type code, the number of dimensions, then each dimension as a
    big-endian 32-bit integer; the entries follow, last dimension fastest. No more is unpacked than
    the header promises. `rows` is the first dimension, where it is known.

    Source: the description of the format on the MNIST page, http://yann.lecun.com/exdb/mnist.
    """
    data = _read_bytes(path)
    # Decided by content, because browsers unzip downloads and leave the .gz in the name.
    is_packed, start = data.startswith(_GZIP_MAGIC), 4 + 4 * ndim
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) if is_packed else io.BytesIO(data) as file:
            shape = _read_shape(file.read(start), ndim, path)
            if rows is not None and shape[0] != rows:
                raise DataFileError(
                    f"{path} must hold one label for each image, expected {rows} labels, found "
                    f"{shape[0]}. The files are not of the same set."
                )
            size = len(data) - (0 if is_packed else start)
            entries = _read_entries(file, shape, size, path)
    except (OSError, EOFError, zlib.error, MemoryError) as error:
        raise DataFileError(
            f"{path} must be a complete gzip file, found: {in_short(error)}. Fetch the file again."
        ) from error
    return np.frombuffer(entries, np.uint8).reshape(shape)


def _read_shape(header: bytes, ndim: int, path: Path) -> tuple[int, ...]:
    expected = bytes([0, 0, _UNSIGNED_BYTE, ndim])
    if header[:4] != expected:
        raise DataFileError(
            f"{path} must start with the bytes {expected.hex(' ')} (idx, unsigned bytes, {ndim} "
            f"dimensions), found {header[:4].hex(' ') or 'nothing'}."
        )
    if len(header) < 4 + 4 * ndim:
        raise DataFileError(
            f"{path} must have a header of {4 + 4 * ndim} bytes, found {len(header)}. "
            "The file is truncated; fetch it again."
        )
    return struct.unpack(f">{ndim}I", header[4:])


def _read_entries(file: io.BufferedIOBase, shape: tuple[int, ...], size: int, path: Path) -> bytes:
    """The bytes after the header, as many as it promises, from a file with a body of `size`."""
    is_packed = isinstance(file, gzip.GzipFile)
    expected = math.prod(shape)
    most = DEFLATE_RATIO * size if is_packed else size
    if expected > most:  # seen before a buffer of that size is made
        problem, found = "truncated", f"{most} at most"
    else:
        check_memory(expected, path, f"an array of shape {shape}")
        # One byte more than expected: that takes gzip to its end, where the checksum is compared.
        entries = file.read(expected + 1)
        if len(entries) == expected:
            return entries
        problem, found = "truncated", f"{len(entries)}"
        if len(entries) > expected:
            problem, found = "followed by other bytes", "more" if is_packed else f"{size}"
    raise DataFileError(
        f"{path} must hold {expected} bytes of data for shape {shape}, found {found}. "
        f"The array is {problem}; fetch the file again."
    )


def _read_records(path: Path) -> UInt8[np.ndarray, "n 3073"]:
    """The records of one batch of CIFAR-10, one per row: the label, then the pixels.

    A file cut between two records cannot be told from a smaller batch.

    Source: "Binary version" on https://www.cs.toronto.edu/~kriz/cifar.html.
    """
    data = _read_bytes(path)
    records, rest = divmod(len(data), _RECORD)
    if rest or not records:
        raise DataFileError(
            f"{path} must hold one or more records of {_RECORD} bytes, found {len(data)} bytes: "
            f"{records} records and {rest} bytes over. The file is truncated or not CIFAR-10."
        )
    table = np.frombuffer(data, np.uint8).reshape(records, _RECORD)
    _check_labels(table[:, 0], path)
    return table


def _read_bytes(path: Path) -> bytes:
    try:
        check_memory(path.stat().st_size, path, "its content")
        return path.read_bytes()
    except OSError as error:
        raise DataFileError(f"{path} could not be read: {error.strerror or error}.") from error
    except MemoryError as error:
        raise DataFileError(f"{path} could not be read: {in_short(error)}.") from error


def _check_labels(labels: UInt8[np.ndarray, " n"], path: Path) -> None:
    bad = np.flatnonzero(labels >= CLASSES)
    if bad.size:
        raise DataFileError(
            f"{path} must hold labels from 0 to {CLASSES - 1}, found {int(labels[bad[0]])} "
            f"and others out of range, {some_rows(bad)}. The file is not what its name says."
        )
