# SPDX-License-Identifier: Apache-2.0
"""Inputs and labels from a file: npz arrays, or named columns of csv and parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from unlazy.checks import check_name
from unlazy.errors import DataFileError

if TYPE_CHECKING:
    import pyarrow as pa


class Table(NamedTuple):
    """Inputs, one sample a row, and a label for each, of whatever type the file has."""

    x: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, "n ..."]


def read_table(path: Path, *, x: Sequence[str] = (), y: str = "y") -> Table:
    """Read inputs and labels from `path`, by its ending: .npz, .csv or .parquet.

    Args:
        path: the file.
        x: in an npz the name of the input array, "x" if left out (inputs of more than two axes are
            flattened); otherwise the columns to use, every numeric one but `y` if left out.
        y: the array or column of the labels.

    Raises:
        DataFileError: the file is missing, can not be read, or lacks an array or a column.
    """
    readers = {".npz": _read_npz, ".csv": _read_columns, ".parquet": _read_columns}
    if path.suffix not in readers:
        raise DataFileError(
            f"`{path}` must end in {', '.join(readers)}, got {path.suffix or 'no ending'}."
        )
    if not path.is_file():
        raise DataFileError(f"`{path}` must be a file; there is none of that name.")
    return readers[path.suffix](path, tuple(x), y)


def _read_npz(path: Path, x: tuple[str, ...], y: str) -> Table:
    (name,) = x or ("x",)
    try:
        with np.load(path, allow_pickle=False) as arrays:
            for wanted in (name, y):
                _check_column(wanted, list(arrays), path)
            inputs, labels = arrays[name], arrays[y]
    except (OSError, ValueError, EOFError) as error:
        if isinstance(error, DataFileError):
            raise
        raise DataFileError(f"`{path}` must be an npz file of plain arrays: {error}.") from error
    inputs = np.asarray(inputs, np.float64)
    return Table(inputs.reshape(len(inputs), -1), labels)


def _read_columns(path: Path, x: tuple[str, ...], y: str) -> Table:
    table = _read_arrow(path)
    _check_column(y, table.column_names, path)
    for name in x:
        _check_column(name, table.column_names, path)
    chosen = x or tuple(name for name in table.column_names if name != y and _numeric(table, name))
    text = [name for name in chosen if not _numeric(table, name)]
    if text or not chosen:
        raise DataFileError(
            f"`x` must be numeric columns of '{path}', got {', '.join(text) or 'none'}. "
            "Encode text as numbers first, or name the columns to use."
        )
    columns = [np.asarray(table[name].to_numpy(), np.float64) for name in chosen]
    return Table(np.stack(columns, axis=1), table[y].to_numpy())


def _read_arrow(path: Path) -> "pa.Table":
    import pyarrow as pa  # here, because importing it takes a while
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix == ".csv":
            return pyarrow.csv.read_csv(path)
        return pyarrow.parquet.read_table(path)
    except (OSError, pa.ArrowInvalid) as error:
        first = str(error).splitlines()[0]
        raise DataFileError(f"`{path}` must be a {path.suffix[1:]} file: {first}.") from error


def _numeric(table: "pa.Table", name: str) -> bool:
    import pyarrow as pa

    kind = table[name].type
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)


def _check_column(name: str, known: Sequence[str], path: Path) -> None:
    try:
        check_name(name, known, "column")
    except ValueError as error:
        raise DataFileError(f"'{path}': {error}") from None
