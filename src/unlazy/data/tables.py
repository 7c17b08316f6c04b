# SPDX-License-Identifier: Apache-2.0
"""Inputs and labels from a file: npz arrays, or named columns of csv and parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Shaped

from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.data.limits import check_memory, in_short
from unlazy.data.npz import check_column, read_npz

if TYPE_CHECKING:
    import pyarrow as pa

_ENDINGS = (".npz", ".csv", ".parquet")
# A row must fit in a block, so the block is the whole file if possible; the parser counts the
# bytes of a block with 31 bits.
_BLOCK_SIZES = 2**20, 2**30
_PER_COLUMN = 12_000  # bytes that the parser takes for a column, however short; it aborts without


class Table(NamedTuple):
    """Inputs, one sample per row, and their labels, of whatever type the file has."""

    x: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, "n ..."]


@entry
def read_table(path: Path, *, x: Sequence[str] = (), y: str = "y") -> Table:
    """Read inputs and labels from `path`, by its ending: .npz, .csv or .parquet.

    Args:
        path: the file.
        x: in an npz the name of the input array, "x" if left out (inputs of more than two axes are
            flattened); otherwise the columns to use, every numeric one but `y` if left out.
        y: the array or column of the labels.

    Raises:
        DataFileError: the file is missing, cannot be read, or lacks an array or a column.
    """
    if path.suffix not in _ENDINGS:
        found = path.suffix or "no ending"
        raise DataFileError(f"`{path}` must end in {', '.join(_ENDINGS)}, got {found}.")
    if not path.is_file():
        found = "is something else" if path.exists() else "is none of that name"
        raise DataFileError(f"`{path}` must be a file; there {found}.")
    inputs, labels = (read_npz if path.suffix == ".npz" else _read_columns)(path, x, y)
    if 0 in inputs.shape or labels.shape[:1] != inputs.shape[:1]:
        raise DataFileError(
            f"`{path}` must hold one label for each row of inputs, of which there must be one at "
            f"least, got inputs of shape {inputs.shape} and labels of shape {labels.shape}."
        )
    return Table(inputs, labels)


def _read_columns(
    path: Path, x: Sequence[str], y: str
) -> tuple[Float64[np.ndarray, "n d"], Shaped[np.ndarray, " n"]]:
    """The columns `x` side by side, if empty every numeric one but `y`; and the column `y`."""
    try:
        table = _read_csv(path) if path.suffix == ".csv" else _read_parquet(path)
        chosen, label = _choose(table.schema, x, y, path)
        check_memory(8 * table.num_rows * len(chosen), path, f"{len(chosen)} columns as float64")
        inputs = np.empty((table.num_rows, len(chosen)))
        for to, column in enumerate(chosen):
            inputs[:, to] = np.asarray(table.column(column).to_numpy(), np.float64)
        return inputs, _labels(table.column(label))
    except DataFileError:
        raise
    except UnicodeDecodeError as error:
        raise DataFileError(
            f"`{path}` must be a {path.suffix[1:]} file in UTF-8: {in_short(error)}. "
            "Save it in that encoding."
        ) from error
    except Exception as error:  # Arrow raises many kinds of errors at damaged files
        raise DataFileError(
            f"`{path}` must be a {path.suffix[1:]} file: {in_short(error)}."
        ) from error


def _read_csv(path: Path) -> "pa.Table":
    import pyarrow.csv as reader  # here, because importing it takes a while

    with path.open("rb") as file:
        columns = 1 + file.readline(_BLOCK_SIZES[1]).count(b",")
    check_memory(_PER_COLUMN * columns, path, f"a table of {columns} columns")
    least, most = _BLOCK_SIZES
    options = reader.ReadOptions(
        # With threads, a row that is longer than a block is an error after which Python cannot
        # exit: a thread of Arrow's waits for a block that never comes.
        use_threads=False,
        block_size=min(max(path.stat().st_size, least), most),
    )
    quoting = reader.ParseOptions(newlines_in_values=True)
    return reader.read_csv(path, read_options=options, parse_options=quoting)


def _read_parquet(path: Path) -> "pa.Table":
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        rows, columns = file.metadata.num_rows, len(file.schema_arrow.names)
        # At least one bit per value; no better bound is known before the file is unpacked.
        check_memory(rows * columns // 8, path, f"a table of {rows} rows, {columns} columns")
        return file.read(use_threads=False)


def _choose(schema: "pa.Schema", x: Sequence[str], y: str, path: Path) -> tuple[list[int], int]:
    """The positions of the columns of the inputs and of the labels."""
    names = schema.names
    for name in (y, *x):
        check_column(name, names, path)
    label = names.index(y)
    numeric = [_is_numeric(kind) for kind in schema.types]
    if x:
        chosen = [names.index(name) for name in x]
    else:
        chosen = [i for i, is_numeric in enumerate(numeric) if is_numeric and i != label]
    text = [names[i] for i in chosen if not numeric[i]]
    if text or not chosen:
        raise DataFileError(
            f"`x` must be numeric columns of '{path}', got {in_short(', '.join(text) or 'none')}. "
            "Encode text as numbers first, or name the columns to use."
        )
    return chosen, label


def _labels(column: "pa.ChunkedArray") -> Shaped[np.ndarray, " n"]:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):  # `to_numpy` gives its last entry to rows without one
        column = column.cast(column.type.value_type)
    return column.to_numpy()


def _is_numeric(kind: "pa.DataType") -> bool:
    import pyarrow as pa

    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
