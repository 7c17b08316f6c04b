# SPDX-License-Identifier: Apache-2.0
"""The idx format of MNIST and its kin: a header with the dimensions, then the entries."""

import gzip
import math
import struct
import zlib
from pathlib import Path

import numpy as np
from jaxtyping import UInt8

from unlazy.data.raw import Split, check_labels_known, read_bytes
from unlazy.errors import DataFileError

_GZIP_MAGIC = b"\x1f\x8b"
_UNSIGNED_BYTE = 0x08


def read_idx(path: Path, ndim: int) -> UInt8[np.ndarray, "..."]:
    """Read an array of unsigned bytes with `ndim` dimensions from an idx file, gzipped or not.

    The header is two zero bytes, a type code, the number of dimensions, then each dimension as a
    big-endian 32-bit integer; the entries follow, last dimension fastest.

    Source: the description of the format on the MNIST page, http://yann.lecun.com/exdb/mnist.

    Raises:
        DataFileError: If the file is not gzip or idx, has another number of dimensions, or has too
            few or too many bytes.
    """
    data = read_bytes(path)
    # By content, not by name: browsers unzip on the way and leave the .gz in the name.
    if data.startswith(_GZIP_MAGIC):
        data = _gunzip(data, path)
    start = 4 + 4 * ndim
    shape = _read_shape(data[:start], ndim, path)
    expected, found = math.prod(shape), len(data) - start
    if expected != found:
        problem = "truncated" if found < expected else "followed by other bytes"
        raise DataFileError(
            f"{path} must hold {expected} bytes of data for shape {shape}, found {found}. "
            f"The array is {problem}; fetch the file again."
        )
    return np.frombuffer(data, np.uint8, offset=start).reshape(shape)


def read_split(images: Path, labels: Path) -> Split:
    """Read the images and the labels of one part of a set, from their two files."""
    x, y = read_idx(images, 3), read_idx(labels, 1)
    if len(x) != len(y):
        raise DataFileError(
            f"{labels} must hold one label for each image of {images.name}, expected {len(x)} "
            f"labels, found {len(y)}. The files are not of the same set."
        )
    check_labels_known(y, labels)
    return Split(x.reshape(len(x), math.prod(x.shape[1:])), y)


def _gunzip(data: bytes, path: Path) -> bytes:
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise DataFileError(
            f"{path} must be a complete gzip file, found: {error}. Fetch the file again."
        ) from error


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
