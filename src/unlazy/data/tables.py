# SPDX-License-Identifier: Apache-2.0
"""Inputs and labels from a file: npz arrays, or named columns of csv and parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.data.columns import read_columns
from unlazy.data.npz import read_npz

_ENDINGS = (".npz", ".csv", ".parquet")


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
        DataFileError: the file is missing, can not be read, or lacks an array or a column.
    """
    if path.suffix not in _ENDINGS:
        found = path.suffix or "no ending"
        raise DataFileError(f"`{path}` must end in {', '.join(_ENDINGS)}, got {found}.")
    if not path.is_file():
        found = "is something else" if path.exists() else "is none of that name"
        raise DataFileError(f"`{path}` must be a file; there {found}.")
    inputs, labels = (read_npz if path.suffix == ".npz" else read_columns)(path, x, y)
    if 0 in inputs.shape or labels.shape[:1] != inputs.shape[:1]:
        raise DataFileError(
            f"`{path}` must hold one label for each row of inputs, of which there must be one at "
            f"least, got inputs of shape {inputs.shape} and labels of shape {labels.shape}."
        )
    return Table(inputs, labels)
