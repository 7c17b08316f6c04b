# SPDX-License-Identifier: Apache-2.0
"""Tables of mixed columns, from text and Parquet files and from other libraries' frames."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlazy.core.entries import entry
from unlazy.core.errors import DataFileError
from unlazy.data.dialects import read_text, separator_of
from unlazy.data.limits import check_memory, in_short

if TYPE_CHECKING:
    import pyarrow as pa

FRAME_ENDINGS = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "?")
"""What stands for no value in a text file."""
# A row must fit in a block, so the block is the whole file if possible; the parser counts the
# bytes of a block with 31 bits.
_BLOCK_SIZES = 2**20, 2**30
_PER_COLUMN = 12_000  # bytes that the parser takes for a column, however short; it aborts without
_NUMBERED = re.compile(r" \(\d+\)$")
_DECIMAL_COMMA = r"^[-+]?\d+(,\d+)?$"


@entry
def read_frame(path: str | Path) -> "pa.Table":
    """Read a table of mixed columns by its ending: .csv, .tsv, either with .gz, or .parquet.

    A text file is in UTF-8, or in UTF-16 with a byte order mark. Its first line names the columns.
    The separator, one of comma, semicolon, tab and bar, is found from the first lines; a decimal
    comma is understood where the comma does not separate. Empty cells and `NA`, `N/A`, `NaN`,
    `null` and `?` are missing values. A name that occurs again gets a number, as in `a (2)`.

    Raises:
        DataFileError: the file is missing, damaged, of another kind, or has no rows.
    """
    path = Path(path)
    if not path.name.lower().endswith(FRAME_ENDINGS):
        found = path.suffix or "no ending"
        raise DataFileError(f"`{path}` must end in {', '.join(FRAME_ENDINGS)}, got {found}.")
    check_file(path)
    kind = "parquet" if path.suffix.lower() == ".parquet" else "csv"
    try:
        table = _read_parquet(path) if kind == "parquet" else _read_csv(path)
    except DataFileError:
        raise
    except UnicodeDecodeError as error:
        raise _not_utf8(path, in_short(error)) from error
    except Exception as error:  # Arrow raises many kinds of errors at damaged files
        raise DataFileError(f"`{path}` must be a {kind} file: {in_short(error)}.") from error
    if not table.num_rows or not table.num_columns:
        raise DataFileError(f"`{path}` must hold one row at least, got {table.shape} as its shape.")
    return table.rename_columns(unique_names(table.column_names))


def check_file(path: Path) -> None:
    """Raise unless the path is a file."""
    if not path.is_file():
        found = "is something else" if path.exists() else "is none of that name"
        raise DataFileError(f"`{path}` must be a file; there {found}.")


def as_frame(x: Any) -> "pa.Table | None":
    """An Arrow table, or a pandas or polars frame, as an Arrow table; None for anything else."""
    import pyarrow as pa

    if isinstance(x, pa.Table):
        table = x
    elif hasattr(x, "__arrow_c_stream__") and hasattr(x, "columns"):
        table = _as_table(x)
        # The index of pandas numbers the rows; it is no column.
        index = [name for name in table.column_names if name.startswith("__index_level_")]
        table = table.drop_columns(index)
    else:
        return None
    names = unique_names(table.column_names)
    return _without_views(table).rename_columns(names)


def _as_table(x: Any) -> "pa.Table":
    """A frame of another library; columns of mixed values, which Arrow has not, as text."""
    import pyarrow as pa

    try:
        return pa.table(x)
    except (pa.ArrowException, TypeError, ValueError) as error:
        if not hasattr(x, "iloc"):  # of pandas: other libraries have no columns of mixed values
            raise ValueError(
                f"`x` must be a frame whose columns each hold one kind of value: {in_short(error)}."
            ) from error
    columns = [_as_column(x.iloc[:, place]) for place in range(x.shape[1])]
    return pa.table(columns, names=[str(name) for name in x.columns])


def _as_column(series: Any) -> "pa.Array | pa.ChunkedArray":
    import pyarrow as pa

    try:
        return pa.array(series, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        cells = zip(series, series.isna(), strict=True)
        return pa.array([None if missing else str(cell) for cell, missing in cells], pa.string())


def _without_views(table: "pa.Table") -> "pa.Table":
    """The table with plain text in place of the views of polars, which Arrow cannot choose from."""
    import pyarrow as pa

    for place, column in enumerate(table.columns):
        if pa.types.is_dictionary(column.type) and pa.types.is_string_view(column.type.value_type):
            column = _decoded(column)
        elif pa.types.is_string_view(column.type):
            column = column.cast(pa.large_string())
        table = table.set_column(place, f"{place}", column)
    return table


def _decoded(column: "pa.ChunkedArray") -> "pa.ChunkedArray":
    """Categories as plain text; Arrow has no cast from a dictionary of views."""
    import pyarrow as pa

    plain: Any = pa.large_string()
    parts = [
        pa.DictionaryArray.from_arrays(
            part.indices, part.dictionary.cast(plain)
        ).dictionary_decode()
        for part in column.chunks
    ]
    return pa.chunked_array(parts, plain)


def unique_names(names: list[str]) -> list[str]:
    """The names without space around them, those that occur again with a number.

    Example:
        >>> unique_names(["a", " a", "", "b"])
        ['a', 'a (2)', 'column 3', 'b']
    """
    found: dict[str, int] = {}
    unique: list[str] = []
    for place, name in enumerate(names, start=1):
        name = str(name).strip() or f"column {place}"
        found[name] = found.get(name, 0) + 1
        unique.append(name if found[name] == 1 else f"{name} ({found[name]})")
    return unique


def original_names(names: list[str]) -> list[str]:
    """The names as they were before `unique_names` gave numbers to those that occur again.

    Example:
        >>> original_names(["a", "a (2)", "b (2)"])
        ['a', 'a', 'b (2)']
    """
    plain = [_NUMBERED.sub("", name) for name in names]
    return [
        short if short in names[:place] else name
        for place, (name, short) in enumerate(zip(names, plain, strict=True))
    ]


def _read_csv(path: Path) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.csv as reader  # here, because importing it takes a while

    content = read_text(path)
    separator = separator_of(content, preferred="\t" if ".tsv" in path.name.lower() else ",")
    columns = 1 + content[: content.find(b"\n")].count(separator.encode())
    check_memory(_PER_COLUMN * columns, path, f"a table of {columns} columns")
    least, most = _BLOCK_SIZES
    options = reader.ReadOptions(
        # With threads, a row that is longer than a block is an error after which Python cannot
        # exit: a thread of Arrow's waits for a block that never comes.
        use_threads=False,
        block_size=min(max(len(content), least), most),
    )
    table = reader.read_csv(
        pa.BufferReader(content),
        read_options=options,
        parse_options=reader.ParseOptions(delimiter=separator, newlines_in_values=True),
        convert_options=reader.ConvertOptions(null_values=MISSING, strings_can_be_null=True),
    )
    _check_header(table, path)
    return table if separator == "," else _with_decimal_commas(table)


def _check_header(table: "pa.Table", path: Path) -> None:
    import pyarrow as pa

    binary = [name for name, kind in zip(table.column_names, table.schema.types, strict=True)
              if pa.types.is_binary(kind)]  # fmt: skip
    if binary:
        raise _not_utf8(path, f"the column {binary[0]!r} has bytes of another encoding")
    if all(_is_number(name) for name in table.column_names):
        names = in_short(", ".join(table.column_names), 60)
        raise DataFileError(
            f"`{path}` must have a first line of column names, got {names}. Add one, such as a,b,y."
        )


def _not_utf8(path: Path, why: str) -> DataFileError:
    return DataFileError(
        f"`{path}` must be a csv file in UTF-8, or in UTF-16 with a byte order mark: {why}. Save "
        "it in UTF-8; a spreadsheet calls that CSV UTF-8."
    )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _with_decimal_commas(table: "pa.Table") -> "pa.Table":
    """Text columns that hold numbers with decimal commas only, as numbers."""
    import pyarrow as pa
    import pyarrow.compute

    compute: Any = pyarrow.compute  # its functions are made when it is imported
    for place, column in enumerate(table.columns):
        if not pa.types.is_string(column.type) or column.null_count == len(column):
            continue
        text = compute.utf8_trim_whitespace(column)
        if compute.all(compute.match_substring_regex(text, _DECIMAL_COMMA)).as_py():
            numbers = compute.replace_substring(text, ",", ".").cast(pa.float64())
            table = table.set_column(place, table.column_names[place], numbers)
    return table


def _read_parquet(path: Path) -> "pa.Table":
    import pyarrow.parquet

    with pyarrow.parquet.ParquetFile(path) as file:
        rows, columns = file.metadata.num_rows, len(file.schema_arrow.names)
        # At least one bit per value; no better bound is known before the file is unpacked.
        check_memory(rows * columns // 8, path, f"a table of {rows} rows, {columns} columns")
        return file.read(use_threads=False)
