# SPDX-License-Identifier: Apache-2.0
"""The idx format of MNIST and its kin: a header with the dimensions, then the entries."""

import gzip
import io
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from unlazy.core.errors import DataFileError
from unlazy.data.limits import DEFLATE_RATIO, check_memory, in_short
from unlazy.data.raw import Split, check_labels_known, read_bytes

_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08


def read_idx(path: Path, ndim: int, *, rows: int | None = None) -> UInt8[np.ndarray, "..."]:
    """Read an array of unsigned bytes with `ndim` dimensions from an idx file, gzipped or not.

    The header is two zero bytes, a type code, the number of dimensions, then each dimension as a
    big-endian 32-bit integer; the entries follow, last dimension fastest. No more is unpacked than
    the header promises.

    Source: the description of the format on the MNIST page, http://yann.lecun.com/exdb/mnist.

    Args:
        path: The file.
        ndim: Number of dimensions.
        rows: The first dimension, where it is known; looked at before anything is unpacked.

    Raises:
        DataFileError: If the file is not gzip or idx, has another number of dimensions or of rows,
            or has too few or too many bytes.
    """
    data = read_bytes(path)
    # By content, not by name: browsers unzip on the way and leave the .gz in the name.
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


def read_split(images: Path, labels: Path) -> Split:
    """Read the images and the labels of one part of a set, from their two files."""
    x = read_idx(images, 3)
    y = read_idx(labels, 1, rows=len(x))
    check_labels_known(y, labels)
    return Split(x.reshape(len(x), math.prod(x.shape[1:])), y)


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
