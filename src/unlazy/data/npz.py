# SPDX-License-Identifier: Apache-2.0
"""Arrays of an npz file, read so that no header can ask for more than the file holds.

NumPy's reader allocates what a header says before it has looked at the data, skips the checksum
when a header says too little, and raises a dozen kinds of errors that name no file.
"""

import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Shaped, UInt8
from numpy.lib import format as npy

from unlazy.core.checks import check_name
from unlazy.core.errors import DataFileError
from unlazy.data.limits import check_memory, in_short

_NUMBERS = "biuf"  # NumPy's letters for the kinds of dtypes
_LABELS = _NUMBERS + "USMm"  # classes may be text or dates
_CHUNK = 2**20  # bytes unpacked at a time
# Later versions of the format are for the field names of records.
_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


class _Header(NamedTuple):
    shape: tuple[int, ...]
    is_fortran: bool
    dtype: np.dtype


def read_npz(
    path: Path, x: Sequence[str], y: str
) -> tuple[Float64[np.ndarray, "n d"], Shaped[np.ndarray, "..."]]:
    """The array that `x` names, "x" if it is empty, flattened to rows; and the array `y`."""
    if len(x) > 1:
        raise DataFileError(f"`x` must be one array of '{path}', got x={', '.join(x)}.")
    (inputs_name,) = x or ("x",)
    name = ""
    try:
        with zipfile.ZipFile(path) as archive:
            known = [member.removesuffix(".npy") for member in archive.namelist()]
            check_column(inputs_name, known, path, "x")
            check_column(y, known, path, "y")
            name = inputs_name
            inputs = _read_member(archive, name, _NUMBERS, path)
            name = y
            labels = _read_member(archive, name, _LABELS, path)
    except DataFileError:
        raise
    except Exception as error:  # a damaged archive can raise nearly anything
        member = f", and {name!r} a whole array" if name else ""
        raise DataFileError(
            f"`{path}` must be an npz file of plain arrays{member}: {in_short(error)}. "
            "The file is damaged or of another kind; save it again."
        ) from error
    if inputs.ndim == 0:
        raise DataFileError(f"`{path}` must hold rows as {inputs_name!r}, got a single number.")
    columns = math.prod(inputs.shape[1:])  # not -1, which is unclear for no rows
    return np.asarray(inputs, np.float64).reshape(len(inputs), columns), labels


def check_column(name: str, known: Sequence[str], path: Path, argument: str) -> None:
    """Raise unless a file has exactly one array or column of the name given as `argument`."""
    try:
        check_name(name, known, argument, "one of the columns or arrays")
    except ValueError as error:
        # Names may have line breaks, and be as long as the file.
        raise DataFileError(f"'{path}': {in_short(error, 800)}.") from None
    if (count := list(known).count(name)) > 1:
        raise DataFileError(
            f"'{path}': `{argument}` must be a name that occurs once, got {argument}={name!r}, "
            f"which occurs {count} times. Rename all but one."
        )


def _read_member(
    archive: zipfile.ZipFile, name: str, kinds: str, path: Path
) -> Shaped[np.ndarray, "..."]:
    info = archive.getinfo(f"{name}.npy")
    with archive.open(info) as file:
        header = _read_header(file, name, kinds, path)
        count = math.prod(header.shape)
        size = count * header.dtype.itemsize
        if file.tell() + size != info.file_size:
            found = info.file_size - file.tell()
            problem = "truncated" if found < size else "followed by other bytes"
            raise DataFileError(
                f"`{path}` must hold {size} bytes for the array {name!r} of shape {header.shape}, "
                f"got {found}. It is {problem}; save it again."
            )
        as_floats = 0 if header.dtype == np.float64 or kinds != _NUMBERS else 8 * count
        check_memory(size + as_floats, path, f"the array {name!r} of shape {header.shape}")
        flat = _unpack(file, size).view(header.dtype)
    array = flat.reshape(header.shape, order="F" if header.is_fortran else "C")
    # Use the native byte order; the file has that of the machine that wrote it.
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _read_header(file: Any, name: str, kinds: str, path: Path) -> _Header:
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"version {version} of the npy format is not for plain arrays")
    header = _Header(*_HEADERS[version](file))
    if header.dtype.kind not in kinds or not header.dtype.itemsize:
        expected = "real numbers" if kinds == _NUMBERS else "real numbers, text or dates"
        raise DataFileError(
            f"`{path}` must be an npz file of plain arrays: the array {name!r} must hold "
            f"{expected}, got dtype={header.dtype}. Convert it before you save it."
        )
    if any(side < 0 for side in header.shape):
        raise ValueError(f"a shape of {header.shape}")
    return header


def _unpack(file: Any, size: int) -> UInt8[np.ndarray, " size"]:
    """Exactly `size` bytes, up to the end of the member, where its checksum is compared."""
    flat, start = np.empty(size, np.uint8), 0
    while start < size:
        piece = file.read(min(_CHUNK, size - start))
        if not piece:
            raise EOFError(f"the data end after {start} of {size} bytes")
        flat[start : start + len(piece)] = np.frombuffer(piece, np.uint8)
        start += len(piece)
    if file.read(1):
        raise ValueError(f"the data go on after {size} bytes")
    return flat
