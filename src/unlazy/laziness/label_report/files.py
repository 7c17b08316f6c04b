# SPDX-License-Identifier: Apache-2.0
"""Measure a data set in a file, of any format that the library reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlazy.core.errors import DataFileError, UnlazyError
from unlazy.data.frames import original_names, read_frame
from unlazy.data.npz import check_column
from unlazy.data.tables import check_ending, read_table
from unlazy.laziness.label_report.measure import measure
from unlazy.laziness.label_report.report import LabelReport


def measure_file(path: Path, *, x: Sequence[str], y: str, **options: Any) -> LabelReport:
    """`measure` on the arrays of an npz file, or on the columns of a table.

    Raises:
        UnlazyError: the file cannot be read or measured; the message names it and says why.
    """
    check_ending(path)
    if y in x:
        raise UnlazyError(f"`x` must leave out {y!r}, which `y` names as the labels.")
    try:
        if path.suffix == ".npz":
            return measure(*read_table(path, x=x, y=y), **options)
        table = read_frame(path)
        known = original_names(table.column_names)
        for argument, name in (("y", y), *(("x", name) for name in x)):
            check_column(name, known, path, argument)
        return measure(table, y, columns=x, **options)
    except DataFileError:
        raise
    except ValueError as error:
        raise UnlazyError(f"'{path}': {error}") from error
