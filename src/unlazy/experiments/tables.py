# SPDX-License-Identifier: Apache-2.0
"""Tables as Parquet and arrays as npz; the same values give the same bytes."""

import io
import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from unlazy.experiments.canonical import compact_json

# The earliest date that a zip file can say, in place of the time of writing.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_NOTE = "unlazy"  # the key of our note among a file's metadata


class Repeated(NamedTuple):
    """A column in which few values stand many times: `values[code]` for each of the codes.

    NumPy would give each row room for the longest text of all.
    """

    values: Sequence[str | int]  # each once, all of one type
    codes: np.ndarray  # of type int32

    def part(self, place: slice) -> list[Any]:
        """The values in these rows."""
        return [self.values[code] for code in self.codes[place].tolist()]


def repeated(values: Sequence[str | int], counts: Sequence[int]) -> Repeated:
    """The column that has the first value as often as the first of `counts` says, and so on.

    Example:
        >>> repeated(["a", "b", "a"], [1, 2, 1])
        Repeated(values=['a', 'b'], codes=array([0, 1, 1, 0], dtype=int32))
    """
    places = {value: place for place, value in enumerate(dict.fromkeys(values))}
    codes = np.array([places[value] for value in values], np.int32)
    return Repeated(list(places), np.repeat(codes, counts))


def table_bytes(table: Mapping[str, np.ndarray]) -> bytes:
    """The table as the bytes of a Parquet file, its columns in the order given."""
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(_arrow_table(table), sink, compression="zstd")
    return sink.getvalue()


def noted_table_bytes(table: Mapping[str, np.ndarray | Repeated], note: Mapping[str, Any]) -> bytes:
    """A table as Parquet with a note for JSON beside its columns."""
    import pyarrow.parquet as pq

    arrow, sink = _arrow_table(table), io.BytesIO()
    # Without the types of Arrow: how repeated values were held is no concern of the reader's.
    options: dict[str, Any] = {"compression": "zstd", "store_schema": False}
    with pq.ParquetWriter(sink, arrow.schema, **options) as writer:
        writer.write_table(arrow)
        writer.add_key_value_metadata({_NOTE: compact_json(dict(note))})
    return sink.getvalue()


def _arrow_table(table: Mapping[str, np.ndarray | Repeated]):
    import pyarrow as pa

    return pa.table({name: _to_arrow(column) for name, column in table.items()})


def read_note(path: Path) -> dict[str, Any]:
    """The note beside the columns of a Parquet file; empty if there is none."""
    import pyarrow.parquet as pq

    metadata = pq.read_schema(path).metadata or {}
    return json.loads(metadata.get(_NOTE.encode(), b"{}"))


def read_table(source: Path | BinaryIO, without: Collection[str] = ()) -> dict[str, np.ndarray]:
    """The columns of a Parquet file; strings come back at their shortest width."""
    import pyarrow.parquet as pq

    # Not pq.read_table: it would take a folder called `a=b` for a column `a`.
    with pq.ParquetFile(source) as file:
        wanted = [name for name in file.schema_arrow.names if name not in without]
        # A cell's table is small: threads take longer.
        table = file.read(wanted if without else None, use_threads=False)
    return {name: _from_arrow(table.column(name)) for name in wanted}


def read_repeated(source: Path, names: Sequence[str]) -> dict[str, Repeated]:
    """Some columns of a Parquet file, of strings that stand many times.

    Raises:
        ValueError: If one is missing, or has no strings.
    """
    import pyarrow.parquet as pq

    there = pq.read_schema(source).names
    missing = [name for name in names if name not in there]
    if missing:
        raise ValueError(f"it has no column '{missing[0]}'")
    with pq.ParquetFile(source, read_dictionary=list(names)) as file:
        table = file.read(list(names), use_threads=False).unify_dictionaries()
    return {name: _from_dictionary(name, table.column(name)) for name in names}


def _from_dictionary(name: str, column: Any) -> Repeated:
    import pyarrow as pa

    if not (pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type)):
        raise ValueError(f"its column '{name}' is not of strings")
    whole = column.combine_chunks()
    return Repeated(whole.dictionary.to_pylist(), np.from_dlpack(whole.indices).copy())


def write_arrays(file: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays to an open file as npz, sorted by name and without pickle.

    `np.savez` does nearly this, but does not promise that its bytes stay the same. Nothing is
    compressed: the bytes would depend on the version of zlib.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(arrays):
            member = zipfile.ZipInfo(f"{name}.npy", date_time=_NO_DATE)
            # The size is not known beforehand and may pass 4 GB.
            with archive.open(member, "w", force_zip64=True) as out:
                np.lib.format.write_array(out, arrays[name], allow_pickle=False)


def read_arrays(source: Path | BinaryIO) -> dict[str, np.ndarray]:
    """The arrays of an npz file."""
    with np.load(source, allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def _to_arrow(column: np.ndarray | Repeated):
    """A column for pyarrow, which takes native byte order only and strings as a list."""
    import pyarrow as pa

    if isinstance(column, Repeated):
        return pa.DictionaryArray.from_arrays(pa.array(column.codes), pa.array(column.values))
    if column.dtype.kind == "U":
        return pa.array(column.tolist(), type=pa.string())
    return pa.array(column.astype(column.dtype.newbyteorder("=")))


def _from_arrow(column) -> np.ndarray:
    """A column back as NumPy, as a copy that may be written to."""
    import pyarrow as pa

    if pa.types.is_string(column.type):
        return np.array(column.to_pylist(), dtype=str)
    # By DLPack, which has no booleans: `to_numpy` would import pandas, which takes a second.
    if pa.types.is_boolean(column.type):
        return _from_arrow(column.cast(pa.uint8())).astype(bool)
    return np.from_dlpack(column.combine_chunks()).copy()
