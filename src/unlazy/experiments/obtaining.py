# SPDX-License-Identifier: Apache-2.0
"""One cell from the store or computed, in this process or by a worker."""

import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from unlazy.core.errors import UnlazyError
from unlazy.experiments import environment
from unlazy.experiments.cell import Cell, CellResult
from unlazy.experiments.store import DamagedCellError, MissingCellError, Store

_FIRST, _LONGEST = 0.05, 2.0  # seconds between two looks at what other runs do


class CellError(UnlazyError):
    """A cell failed; its cause says why, and the finished cells are stored."""


def cell_error(cell: Cell, error: BaseException, root: Path) -> CellError:
    """The error that says which cell failed, why, and how to go on."""
    kind = "" if isinstance(error, UnlazyError) else f"{type(error).__name__}: "
    return CellError(
        f"the cell '{cell}' of {cell.experiment} failed: {kind}{error} "
        f"The finished cells are stored in '{root}': the same command resumes after them."
    )


class Work(NamedTuple):
    """A cell's result, and whether it was computed for this run."""

    result: CellResult
    computed: bool


class Looks:
    """Waits for the cells that other runs compute, longer and longer, and tells of it once."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.note, self.pause = note, _FIRST

    def wait(self, cells: int) -> None:
        """Wait until it is time to look again for so many cells."""
        if self.pause == _FIRST:
            self.note(f"other runs on this folder compute {cells} of the cells; waiting for them.")
        time.sleep(self.pause)
        self.pause = min(1.5 * self.pause, _LONGEST)


def stored_result(store: Store, cell: Cell) -> CellResult | None:
    """The stored result of a cell, None if there is none.

    Raises:
        DamagedCellError: If it is damaged.
    """
    if not store.has(cell):
        return None
    try:
        return store.read(cell)
    except MissingCellError:
        return None


def obtain(
    store: Store,
    cell: Cell,
    compute: Callable[[Cell], CellResult],
    *,
    force: bool,
    jobs: int,
    run: str = "",
) -> Work:
    """The result of a cell on which the caller holds the lease; it is stored afterwards.

    `jobs` is how many cells are computed at a time. Whoever held the lease before may have stored
    the cell, so it is looked for once more; with `force` it must have done so for the same `run`.
    """
    began, replace = time.perf_counter(), force
    ours = run != "" and _run_of(store, cell) == run
    try:
        result = None if force and not ours else stored_result(store, cell)
    except DamagedCellError:
        result, replace = None, True
    if result is not None:
        return Work(result, computed=ours)
    result = compute(cell)
    meta = record(time.perf_counter() - began, jobs) | ({"run": run} if run else {})
    store.write(cell, result, meta, replace=replace)
    return Work(result, computed=True)


def _run_of(store: Store, cell: Cell) -> object:
    """What the stored cell says of the run that it was computed for, if anything."""
    with contextlib.suppress(DamagedCellError, AttributeError):  # it may say anything
        return store.meta(cell).get("run")
    return None


def record(seconds: float, jobs: int) -> dict[str, Any]:
    """What to store beside a cell that the cell does not determine."""
    return {
        "seconds": round(seconds, 3),
        "jobs": jobs,  # cells computed at a time: with several, each takes longer
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": environment.used_device(),
        "versions": environment.versions(),
    }
