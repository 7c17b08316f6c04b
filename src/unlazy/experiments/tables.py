# SPDX-License-Identifier: Apache-2.0
"""Tables as Parquet and arrays as npz; the same values give the same bytes."""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from unlazy.experiments.canonical import compact_json

# The earliest date that a zip file can say, in place of the time of writing.
_NO_DATE = (1980, 1, 1, 0, 0, 0)
_NOTE = "unlazy"  # the key of our note among a file's metadata


def table_bytes(table: Mapping[str, np.ndarray], note: Mapping[str, Any] | None = None) -> bytes:
    """The table as the bytes of a Parquet file, its columns in the order given.

    A `note` for JSON is kept beside the columns.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {name: _to_arrow(column) for name, column in table.items()}
    arrow = pa.table(columns)
    if note is not None:
        arrow = arrow.replace_schema_metadata({_NOTE: compact_json(dict(note))})
    sink = io.BytesIO()
    pq.write_table(arrow, sink, compression="zstd")
    return sink.getvalue()


def read_note(path: Path) -> dict[str, Any]:
    """The note beside the columns of a Parquet file; empty if there is none."""
    import pyarrow.parquet as pq

    metadata = pq.read_schema(path).metadata or {}
    return json.loads(metadata.get(_NOTE.encode(), b"{}"))


def read_table(source: Path | BinaryIO) -> dict[str, np.ndarray]:
    """The columns of a Parquet file; strings come back at their shortest width."""
    import pyarrow.parquet as pq

    # Not pq.read_table: it would take a folder called `a=b` for a column `a`.
    with pq.ParquetFile(source) as file:
        table = file.read(use_threads=False)  # a cell's table is small: threads take longer
    return {name: _from_arrow(table.column(name)) for name in table.column_names}


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


def _to_arrow(column: np.ndarray):
    """A column for pyarrow, which takes native byte order only and strings as a list."""
    import pyarrow as pa

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
