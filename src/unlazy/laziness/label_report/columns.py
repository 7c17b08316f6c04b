# SPDX-License-Identifier: Apache-2.0
"""Which columns of a table are inputs, in which form, and why the others are not."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float64, Int, Shaped

from unlazy.core.checks import check_name, short
from unlazy.data.dialects import as_dates, as_numbers
from unlazy.data.frames import MISSING

if TYPE_CHECKING:
    import pyarrow as pa

NUMBER, LEVELS, DROPPED = "number", "levels", "dropped"
MOST_LEVELS = 30  # columns that one text column becomes, at most
_FEWEST_ROWS = 20  # from which integers that count the rows are told from others
_ROW_NAMES = ("id", "index", "idx", "row", "rowid", "row_id", "unnamed: 0", "uuid", "column 1")
_ROW_NAMES += ("__index_level_0__",)  # of pandas, in Parquet
_MAYBE_NAMES = (
    "differs in every row: if it is an identifier, leave it out by naming the others, with --x "
    "or `columns`"
)
_MISSING = "(missing)"


class ColumnUse(NamedTuple):
    """What became of one column: "number", "levels" or "dropped", and why."""

    name: str
    use: str
    width: int  # columns of numbers that it became
    reason: str


class Prepared(NamedTuple):
    """A column with its values: numbers with nan for missing, or levels as text."""

    use: ColumnUse
    values: Float64[np.ndarray, " n"] | Shaped[np.ndarray, " n"] | None


def prepare(
    table: "pa.Table", wanted: Sequence[str] = (), rows: Int[np.ndarray, " n"] | None = None
) -> list[Prepared]:
    """Every column of the table, or those `wanted`, which only a lack of content drops.

    `rows` are the numbers by which notes call the rows of the table; 0, 1, ... if left out.
    """
    rows = np.arange(table.num_rows) if rows is None else rows
    for name in wanted:
        check_name(name, table.column_names, "column")
    return [
        _prepared(name, table.column(name), rows, named=bool(wanted))
        for name in (wanted or table.column_names)
    ]


def from_array(x: Float64[np.ndarray, "n d"]) -> list[Prepared]:
    """The columns of an array, which are all numbers; only those without content are dropped."""
    return [_number(f"column {j}", x[:, j], "", named=True) for j in range(x.shape[1])]


def _prepared(
    name: str, column: "pa.ChunkedArray", rows: Int[np.ndarray, " n"], *, named: bool
) -> Prepared:
    import pyarrow as pa
    import pyarrow.types as kinds

    is_text = _is_text(column.type)
    if kinds.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if column.null_count == len(column):
        return _dropped(name, "has no values")
    if is_text:
        return _text(name, column.cast(pa.large_string()), rows, named=named)
    if kinds.is_boolean(kind) or _is_text(kind):  # the text of categories
        return _levels(name, column.cast(pa.large_string()), named=named)
    if kinds.is_temporal(kind) and not kinds.is_interval(kind):
        what = "a duration" if kinds.is_duration(kind) else "a date or time"
        return _number(name, _as_float(_ticks(column)), f"{what}, as a number", named=named)
    if kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_decimal(kind):
        return _number(name, _as_float(column), "", named=named, whole=kinds.is_integer(kind))
    return _dropped(name, f"is of the type {kind}, which has no encoding here")


def _is_text(kind: "pa.DataType") -> bool:
    import pyarrow.types as kinds

    return kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)


def _text(
    name: str, column: "pa.ChunkedArray", rows: Int[np.ndarray, " n"], *, named: bool
) -> Prepared:
    """A column of text, as numbers if it is numbers or dates but for signs and a few cells."""
    import pyarrow as pa
    import pyarrow.compute

    compute: Any = pyarrow.compute  # its functions are made when it is imported
    text = compute.utf8_trim_whitespace(column)
    no_value = compute.is_in(text, value_set=pa.array(MISSING, pa.large_string()))
    text = compute.if_else(no_value, None, text)
    reading = as_numbers(text) or as_dates(text)
    if reading is None or reading.values is None:
        levels = _levels(name, column, named=named)
        return _dropped(name, reading.note) if reading and levels.values is None else levels
    values = reading.values
    slips = np.flatnonzero(compute.and_(text.is_valid(), values.is_null()).to_numpy())
    note = reading.note
    if slips.size:
        note += _slip(text[int(slips[0])].as_py(), int(rows[slips[0]]), len(slips))
    numbers = _as_float(_ticks(values) if pa.types.is_temporal(values.type) else values)
    whole = reading.is_plain and bool(np.all((numbers % 1 == 0) | np.isnan(numbers)))
    return _number(name, numbers, note, named=named, whole=whole)


def _slip(cell: str, row: int, count: int) -> str:
    more = f", as do {count - 1} more" if count > 1 else ""
    return f"; row {row} holds {short(cell, 30)}, which counts as missing{more}"


def _ticks(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    import pyarrow as pa

    width = column.type.bit_width
    return column.cast(pa.int32() if width == 32 else pa.int64())


def _as_float(column: "pa.ChunkedArray") -> Float64[np.ndarray, " n"]:
    import pyarrow as pa

    return np.array(column.cast(pa.float64(), safe=False).to_numpy(), np.float64)


def _number(
    name: str, values: Float64[np.ndarray, " n"], note: str, *, named: bool, whole: bool = False
) -> Prepared:
    if np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise ValueError(
            f"`x` must be finite or missing, got {values[row]} in the column {name!r}, row {row}."
        )
    missing = np.isnan(values)
    present = values[~missing]
    if not present.size:
        return _dropped(name, "has no values")
    if not missing.any() and np.all(present == present[0]):
        return _dropped(name, f"is {present[0]:g} in every row")
    if not named and (why := _counts_rows(name, present, whole)):
        return _dropped(name, why)
    width = 1 + int(missing.any())
    reason = [note] if note else []
    if whole and not named and _all_differ(present):
        reason.append(_MAYBE_NAMES)
    if missing.any():
        reason.append(f"{missing.sum()} missing: the median, and a column that flags them")
    return Prepared(ColumnUse(name, NUMBER, width, "; ".join(reason)), values)


def _all_differ(values: Float64[np.ndarray, " m"]) -> bool:
    return len(values) >= _FEWEST_ROWS and len(np.unique(values)) == len(values)


def _counts_rows(name: str, values: Float64[np.ndarray, " m"], whole: bool) -> str:
    """Why the column looks like a number of the row rather than a quantity; empty if not."""
    distinct = np.unique(values)
    mostly = len(distinct) > max(1, len(values) // 3)
    if name.lower() in _ROW_NAMES and mostly:
        return "is an identifier by its name"
    if not whole or len(values) < _FEWEST_ROWS:
        return ""
    if name.lower().endswith(("_id", " id")) and mostly:
        return "is an identifier by its name"
    if 2 * len(distinct) >= len(values) and distinct[-1] - distinct[0] == len(distinct) - 1:
        return "counts the rows: its values are consecutive integers"
    if len(distinct) == len(values) and np.all(np.diff(values) > 0):
        return "numbers the rows: its values are integers that only rise"
    return ""


def _levels(name: str, column: "pa.ChunkedArray", *, named: bool) -> Prepared:
    import pyarrow.compute

    compute: Any = pyarrow.compute  # its functions are made when it is imported
    values = compute.utf8_trim_whitespace(column).to_numpy(zero_copy_only=False)
    missing = np.array([value is None for value in values])
    values = np.where(missing, _MISSING, values).astype(object)
    levels, counts = np.unique(values.astype(str), return_counts=True)
    present = int((~missing).sum())
    found = len(levels) - int(missing.any())
    if len(levels) == 1:
        return _dropped(name, f"is {str(levels[0])!r} in every row")
    if found == present and not named:
        return _dropped(name, "is text that differs in every row: a name or an identifier")
    if found > max(MOST_LEVELS, present // 2) and not named:
        return _dropped(name, f"is free text: {found} different values in {present} rows")
    reason = f"{found} values" + (f", {missing.sum()} missing as one more" if missing.any() else "")
    width = 1 if len(levels) == 2 else min(len(levels), MOST_LEVELS)
    if len(levels) > MOST_LEVELS:
        kept = np.sort(counts)[::-1][: MOST_LEVELS - 1].sum()
        reason += f"; the {MOST_LEVELS - 1} most frequent, {kept / len(values):.0%} of the rows"
    return Prepared(ColumnUse(name, LEVELS, width, reason), values)


def _dropped(name: str, why: str) -> Prepared:
    return Prepared(ColumnUse(name, DROPPED, 0, why), None)
