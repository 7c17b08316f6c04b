# SPDX-License-Identifier: Apache-2.0
"""Inputs and labels from a file: npz arrays, or named numeric columns of a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float, Float64, Shaped

from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.data.frames import FRAME_ENDINGS, check_file, original_names, read_frame
from unlazy.data.limits import check_memory, in_short
from unlazy.data.npz import check_column, read_npz

if TYPE_CHECKING:
    import pyarrow as pa


class Table(NamedTuple):
    """Inputs, one sample per row, and their labels, of whatever type the file has."""

    x: Float[np.ndarray, "n d"]
    y: Shaped[np.ndarray, "n ..."]


@entry
def read_table(path: str | Path, *, x: Sequence[str] = (), y: str = "y") -> Table:
    """Read numeric inputs and labels from `path`: .npz, or what `read_frame` reads.

    Args:
        path: the file.
        x: in an npz the name of the input array, "x" if left out (inputs of more than two axes are
            flattened); otherwise the columns to use, every numeric one but `y` if left out.
        y: the array or column of the labels.

    Raises:
        DataFileError: the file is missing, cannot be read, or lacks an array or a column.
    """
    path = Path(path)
    check_ending(path)
    check_file(path)
    inputs, labels = (read_npz if path.suffix == ".npz" else _read_columns)(path, x, y)
    if 0 in inputs.shape or labels.shape[:1] != inputs.shape[:1]:
        raise DataFileError(
            f"`{path}` must hold one label for each row of inputs, of which there must be one at "
            f"least, got inputs of shape {inputs.shape} and labels of shape {labels.shape}."
        )
    return Table(inputs, labels)


def check_ending(path: Path) -> None:
    """Raise unless the path ends as an npz file or a table does."""
    if path.suffix != ".npz" and not path.name.lower().endswith(FRAME_ENDINGS):
        found, known = path.suffix or "no ending", ", ".join((".npz", *FRAME_ENDINGS))
        raise DataFileError(f"`{path}` must end in {known}, got {found}.")


def _read_columns(
    path: Path, x: Sequence[str], y: str
) -> tuple[Float64[np.ndarray, "n d"], Shaped[np.ndarray, " n"]]:
    """The columns `x` side by side, if empty every numeric one but `y`; and the column `y`."""
    table = read_frame(path)
    chosen, label = _choose(table.schema, x, y, path)
    check_memory(8 * table.num_rows * len(chosen), path, f"{len(chosen)} columns as float64")
    inputs = np.empty((table.num_rows, len(chosen)))
    for to, column in enumerate(chosen):
        inputs[:, to] = np.asarray(table.column(column).to_numpy(), np.float64)
    return inputs, plain_values(table.column(label))


def _choose(schema: "pa.Schema", x: Sequence[str], y: str, path: Path) -> tuple[list[int], int]:
    """The positions of the columns of the inputs and of the labels."""
    names = schema.names
    for argument, name in (("y", y), *(("x", name) for name in x)):
        check_column(name, original_names(names), path, argument)
    label = names.index(y)
    numeric = [is_numeric(kind) for kind in schema.types]
    if x:
        chosen = [names.index(name) for name in x]
    else:
        chosen = [i for i, is_number in enumerate(numeric) if is_number and i != label]
    text = [names[i] for i in chosen if not numeric[i]]
    if text or not chosen:
        raise DataFileError(
            f"`x` must be numeric columns of '{path}', got {in_short(', '.join(text) or 'none')}. "
            "Encode text as numbers first, or name the columns to use."
        )
    return chosen, label


def plain_values(column: "pa.ChunkedArray") -> Shaped[np.ndarray, " n"]:
    """A column as an array: numbers, or objects with None where there is no value."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):  # `to_numpy` gives its last entry to rows without one
        column = column.cast(column.type.value_type)
    return column.to_numpy()


def is_numeric(kind: "pa.DataType") -> bool:
    """Whether a column of this type holds integers, floating-point numbers or booleans."""
    import pyarrow as pa

    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
