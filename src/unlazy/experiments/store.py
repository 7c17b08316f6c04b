# SPDX-License-Identifier: Apache-2.0
"""The store: one folder per cell, whole or not there."""

import errno
import hashlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any

from unlazy.core import disk
from unlazy.core.entries import entry
from unlazy.core.errors import StoreError
from unlazy.experiments.canonical import compact_json, plain_json, readable_json
from unlazy.experiments.cell import Cell, CellResult
from unlazy.experiments.leases import Leases
from unlazy.experiments.tables import read_arrays, read_table, table_bytes, write_arrays

CELL, TABLE, ARRAYS, META = "cell.json", "table.parquet", "arrays.npz", "meta.json"
_IDENTITY = {"experiment", "version", "config", "seed"}
# What a rename over a folder with files in it fails with, depending on the file system.
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)


class DamagedCellError(StoreError):
    """A stored cell is not what was written; computing it again repairs it."""


class MissingCellError(DamagedCellError):
    """There is no such cell, or no longer: another run may have taken it away."""


@dataclass(frozen=True)
class StoredCell:
    """A cell as it is stored, whether or not its code is at hand."""

    digest: str
    identity: Mapping[str, Any]  # experiment, version, configuration and seed
    result: CellResult
    meta: Mapping[str, Any]  # device, versions, seconds, when it was finished


class Store:
    """Results on disk, in `root/cells/<experiment>/<digest>/`.

    A cell's folder holds `cell.json` (what was computed, and the SHA-256 of the next two),
    `table.parquet`, `arrays.npz` and `meta.json`. The first three depend on the cell alone, byte
    for byte on one CPU, up to rounding on a GPU; what varies from run to run, such as the time it
    took, is in `meta.json`. Any number of runs may share a store.

    Example:
        >>> import numpy as np, tempfile
        >>> cell = Cell("demo", 1, config=None, seed=3)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = Store(folder)
        ...     store.write(cell, CellResult({"loss": np.array([0.5])}), {"seconds": 1.0})
        ...     store.read(cell).table["loss"]
        array([0.5])
    """

    @entry
    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    @entry
    def folder(self, cell: Cell) -> Path:
        """Where the cell is, or would be."""
        # Twenty digits keep paths short; should two cells ever share them, `read` tells them apart.
        return self._cells / cell.experiment / cell.digest[:20]

    @entry
    def prepare(self, experiment: str = "") -> None:
        """Make the store for an experiment's cells, and clear what dead runs left.

        Raises:
            StoreError: If nothing can be written there.
        """
        with disk.disk_errors("write to", self.root):
            (self._cells / experiment).mkdir(parents=True, exist_ok=True)
            disk.clear_abandoned(self._cells)
        disk.check_writable(self._cells)
        if experiment:
            disk.check_writable(self._cells / experiment)

    @entry
    def has(self, cell: Cell) -> bool:
        """Whether the cell was stored; only `read` finds out whether it is undamaged."""
        folder = self.folder(cell)
        with disk.disk_errors("read", folder), suppress(FileNotFoundError):
            os.scandir(folder.parent).close()  # a network file system then looks anew
            os.lstat(folder)  # a link to nothing is there: nothing can be written in its place
            return True
        return False

    @entry
    def read(self, cell: Cell) -> CellResult:
        """The stored result of a cell.

        Raises:
            DamagedCellError: If a file is missing or is not what was written, with the folder.
            StoreError: If the disk cannot be read.
        """
        tried = False
        while True:
            seen = _state(self.folder(cell))
            try:
                return self._read(cell)
            except StoreError as error:
                # Another run may have put a new cell in its place while it was read.
                if _state(self.folder(cell)) != seen:
                    continue
                if seen is None and isinstance(error, DamagedCellError):
                    raise MissingCellError(str(error)) from error
                if tried:
                    raise
                # Clocks of file systems tick: two folders of one tick may look the same.
                tried = True
                time.sleep(0.02)

    def _read(self, cell: Cell) -> CellResult:
        folder = self.folder(cell)
        with _damage(folder):
            record = json.loads(_bytes(folder / CELL))
            # As text, since to Python 1 and 1.0 are the same.
            stored, wanted = compact_json(record["cell"]), compact_json(cell.identity())
            if (record["digest"], stored) != (cell.digest, wanted):
                raise ValueError(f"{CELL} describes another cell")
            return _result(folder, record)

    @entry
    def by_digest(self, experiment: str, digest: str) -> StoredCell:
        """A stored cell by its digest alone, for whoever does not have its configuration.

        Its `meta` is empty if that file cannot be read: results do not depend on it, and it has no
        checksum, so that no run would ever write it anew.

        Raises:
            DamagedCellError: If a file is missing or is not what was written, with the folder.
            StoreError: If the disk cannot be read.
        """
        folder = self._cells / experiment / digest[:20]
        with _damage(folder):
            record = plain_json(_bytes(folder / CELL))
            cell = record["cell"]
            if hashlib.sha256(compact_json(cell).encode()).hexdigest() != digest:
                raise ValueError(f"{CELL} describes another cell")
            # A forger can see to the digest: whoever reads the cell relies on these.
            if set(cell) != _IDENTITY or cell["experiment"] != experiment:
                raise ValueError(f"{CELL} describes no cell of {experiment}")
            if any(type(cell[name]) is not int for name in ("seed", "version")):
                raise ValueError(f"{CELL} has a seed or a version that is no integer")
            return StoredCell(digest, cell, _result(folder, record), _meta(folder))

    @entry
    def meta(self, cell: Cell) -> dict[str, Any]:
        """What was recorded about the run that stored the cell."""
        folder = self.folder(cell)
        with _damage(folder):
            return json.loads(_bytes(folder / META))

    @entry
    def write(
        self, cell: Cell, result: CellResult, meta: Mapping[str, Any], *, replace: bool = False
    ) -> None:
        """Store a result, all of it or nothing.

        Args:
            cell: What was computed.
            result: What came out.
            meta: What else to record, anything that JSON can say.
            replace: Replace a stored cell. Otherwise that one stays: another run was faster, and
                cells are pure, so that both hold the same up to rounding.

        Raises:
            StoreError: If it could not be written; nothing of it is left, and other cells stay.
        """
        with disk.disk_errors("write to", self.root):
            target = self.folder(cell)
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary = disk.temporary_path(self._cells)
            try:
                _write_files(temporary, cell, result, meta)
                self._publish(temporary, target, replace=replace)
            finally:
                disk.discard(temporary)
            disk.sync_folder(target.parent)

    @entry
    def remove(self, cell: Cell) -> None:
        """Remove a stored cell, if it is there."""
        with disk.disk_errors("write to", self.root):
            disk.discard(self._move_aside(self.folder(cell)))

    def leases(self) -> Leases:
        """The leases on the cells of this store, which runs take before they compute a cell."""
        return Leases(self._cells / ".leases")

    @property
    def _cells(self) -> Path:
        return self.root / "cells"

    def _publish(self, temporary: Path, target: Path, *, replace: bool) -> None:
        """Rename the written folder to its place; with `replace`, retry if another run is first."""
        while True:
            old = self._move_aside(target) if replace else None
            try:
                os.rename(temporary, target)
            except OSError as error:
                # Only the error tells that the place was taken: it may be free again by now.
                if error.errno not in _TAKEN:
                    if old and os.path.exists(old):
                        os.rename(old, target)
                    raise
                if not replace:
                    return
            else:
                return
            finally:
                if old:
                    disk.discard(old)

    def _move_aside(self, target: Path) -> Path:
        """Move a cell away in one step, so that no half-removed cell is ever seen."""
        aside = disk.temporary_path(self._cells)
        with suppress(FileNotFoundError):
            os.rename(target, aside)
        return aside


def _write_files(folder: Path, cell: Cell, result: CellResult, meta: Mapping[str, Any]) -> None:
    """Write the four files of a cell into a new folder, and wait until the disk has them."""
    folder.mkdir()
    disk.write_synced(folder / TABLE, table_bytes(result.table))
    with (folder / ARRAYS).open("wb") as file:
        write_arrays(file, result.arrays)
        file.flush()
        os.fsync(file.fileno())
    checksums = {name: _sha256(folder / name) for name in (TABLE, ARRAYS)}
    record = {"cell": cell.identity(), "digest": cell.digest, "sha256": checksums}
    disk.write_synced(folder / CELL, readable_json(record))
    disk.write_synced(folder / META, readable_json(dict(meta)))
    disk.sync_folder(folder)


def _meta(folder: Path) -> dict[str, Any]:
    """What was recorded beside a cell; empty if that cannot be read."""
    try:
        meta = plain_json(_bytes(folder / META))
    except (OSError, ValueError):
        return {}
    return meta if isinstance(meta, dict) else {}


def _result(folder: Path, record: Mapping[str, Any]) -> CellResult:
    with _as_written(folder / TABLE, record) as table:
        columns = read_table(table)
    with _as_written(folder / ARRAYS, record) as arrays:
        return CellResult(columns, read_arrays(arrays))


def _state(folder: Path) -> tuple[int, ...] | None:
    """What changes whenever another folder is put in the place of this one; None without any."""
    try:
        status = os.lstat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_ctime_ns, status.st_mtime_ns


def _sha256(path: Path) -> str:
    with disk.open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _bytes(path: Path) -> bytes:
    with disk.open_regular(path) as file:
        return file.read()


@contextmanager
def _as_written(path: Path, record: Mapping[str, Any]) -> Iterator[BufferedReader]:
    """The open file, if its checksum is the recorded one."""
    with disk.open_regular(path) as file:
        if record["sha256"][path.name] != hashlib.file_digest(file, "sha256").hexdigest():
            raise ValueError(f"{path.name} is not what was written")
        file.seek(0)
        yield file


@contextmanager
def _damage(folder: Path) -> Iterator[None]:
    """Distinguish damage, which computing again repairs, from a disk that cannot be read."""
    try:
        with disk.disk_errors("read", folder):
            try:
                yield
            except OSError as error:
                if error.errno is None:  # not the system's: pyarrow says so of a damaged file
                    raise ValueError(str(error)) from error
                what = disk.obstacle(folder)
                if not what and not isinstance(error, FileNotFoundError | NotADirectoryError):
                    raise
                fault = f"is {what}" if what else f"has no {Path(error.filename or '').name}"
                raise DamagedCellError(f"the stored cell '{folder}' {fault}.") from error
    except StoreError:
        raise
    except MemoryError as error:
        raise StoreError(f"the stored cell '{folder}' does not fit in memory.") from error
    except Exception as error:  # whatever the readers of four formats raise
        fault = " ".join(str(error).split()) or type(error).__name__
        raise DamagedCellError(f"the stored cell '{folder}' is damaged: {fault}.") from error
