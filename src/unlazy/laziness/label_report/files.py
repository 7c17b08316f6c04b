# SPDX-License-Identifier: Apache-2.0
"""Measure a data set in a file, of any format that the library reads."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unlazy.core.checks import some_names
from unlazy.core.errors import DataFileError, UnlazyError
from unlazy.data.frames import original_names, read_frame
from unlazy.data.limits import in_short
from unlazy.data.npz import check_column
from unlazy.data.tables import check_ending, read_table
from unlazy.laziness.label_report.measure import measure
from unlazy.laziness.label_report.report import LabelReport

_USUAL = "y"  # what the labels are called where nobody says so


def measure_file(
    path: Path, *, x: Sequence[str], y: str | None = None, **options: Any
) -> LabelReport:
    """`measure` on the arrays of an npz file, or on the columns of a table.

    Without a name the labels are the column or array called "y".

    Raises:
        UnlazyError: the file cannot be read or measured; the message names it and says why.
    """
    check_ending(path)
    y, is_given = y or _USUAL, y is not None
    if y in x:
        raise UnlazyError(f"`x` must leave out {y!r}, which `y` names as the labels.")
    try:
        if path.suffix == ".npz":
            return measure(*read_table(path, x=x, y=y), **options)
        table = read_frame(path)
        known = original_names(table.column_names)
        if not (is_given or y in known):
            raise DataFileError(
                f"'{path}': `y` must name the column of the labels, as none is called {y!r}. "
                f"Columns: {in_short(some_names(known), 800)}."
            )
        for argument, name in (("y", y), *(("x", name) for name in x)):
            check_column(name, known, path, argument)
        return measure(table, y, columns=x, **options)
    except DataFileError:
        raise
    except ValueError as error:
        raise UnlazyError(f"'{path}': {error}") from error
