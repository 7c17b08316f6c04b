# SPDX-License-Identifier: Apache-2.0
"""Pickled dicts of numbers, strings and NumPy arrays, read without running what they name."""

import io
import pickle
import pickletools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from unlazy.core.errors import DataFileError
from unlazy.data.limits import in_short
from unlazy.data.raw import read_bytes


def read_pickled_dict(path: Path) -> dict[Any, Any]:
    """Read a dict that was pickled by Python 2 or 3, whose values may be arrays of integers.

    A pickle is a program: it may call any function that can be imported. Here it may only name the
    four that an array is rebuilt with, in old and new versions of NumPy, and gets stand-ins that do
    no more than note the shape, the type and the bytes. Strings of Python 2 come as bytes.

    Raises:
        DataFileError: If the file is no pickle of a dict, is truncated, or names anything else.
    """
    data = read_bytes(path)
    try:
        _check_memo(data)
        content = _ArraysOnly(data).load()
    except _ForbiddenError as error:
        raise DataFileError(
            f"{path} must be a pickle of plain NumPy arrays, found {in_short(error)}, which was "
            "not called. "
            "Do not load this file by other means unless you trust where it is from."
        ) from error
    except Exception as error:  # a corrupt pickle can raise nearly anything, from any opcode
        raise DataFileError(
            f"{path} must be a complete pickle, found: {type(error).__name__}: {in_short(error)}. "
            "Fetch the file again."
        ) from error
    if not isinstance(content, dict):
        raise DataFileError(f"{path} must hold a dict, found a {type(content).__name__}.")
    return {
        name: value.array if isinstance(value, _PickledArray) else value
        for name, value in content.items()
    }


def _check_memo(data: bytes) -> None:
    """Walk through a pickle without running it; raise if its memo has numbers beyond its length.

    Python allocates a table as long as the largest number, 32 GB after one flipped bit.
    """
    for opcode, argument, _ in pickletools.genops(data):
        if "PUT" in opcode.name and isinstance(argument, int) and argument > len(data):
            raise ValueError(f"an entry {argument} of the memo, in {len(data)} bytes")


class _ForbiddenError(Exception):
    """A pickle asks for something that is not on the list."""


class _PickledDtype:
    """Stands in for `numpy.dtype`, which warns at how old pickles call it (since NumPy 2.4)."""

    def __init__(self, code: str | bytes, align: int = 0, copy: int = 1):
        del align, copy
        self.code = _text(code)
        if self.code not in {"u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8"}:
            raise _ForbiddenError(f"an array of type {self.code!r}")
        self.byteorder = "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.byteorder = _text(state[1])


class _PickledArray:
    """Stands in for the empty array that NumPy pours a pickled state into.

    NumPy trusts that state, down to flags that say which bytes are pointers; this does not.
    """

    def __init__(self, *_: Any):
        self.array = np.empty((0,), np.uint8)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, dtype, is_fortran, raw = state
        flat = np.frombuffer(raw, np.dtype(dtype.byteorder + dtype.code))
        self.array = flat.reshape(shape, order="F" if is_fortran else "C")


def _text(value: str | bytes) -> str:
    return value.decode("ascii") if isinstance(value, bytes) else value


_ALLOWED: Mapping[tuple[str, str], Callable[..., Any]] = {
    ("numpy.core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): _PickledArray,
    ("numpy", "ndarray"): _PickledArray,
    ("numpy", "dtype"): _PickledDtype,
}


class _ArraysOnly(pickle.Unpickler):
    def __init__(self, data: bytes):
        super().__init__(io.BytesIO(data), encoding="bytes")
        self.left = len(data)  # bytes that text may still be encoded to

    def find_class(self, module_name: str, global_name: str, /) -> Any:
        if (module_name, global_name) == ("_codecs", "encode"):
            return self.encode
        try:
            return _ALLOWED[module_name, global_name]
        except KeyError:
            raise _ForbiddenError(f"the global {module_name}.{global_name}") from None

    def encode(self, text: str, encoding: str) -> bytes:
        """How Python 3 writes bytes into pickles of protocol 2: each text in the file once."""
        if encoding != "latin1":
            raise _ForbiddenError(f"the encoding {encoding!r}")
        self.left -= len(text)
        if self.left < 0:
            raise ValueError("text that is encoded again and again")
        return text.encode("latin1")
