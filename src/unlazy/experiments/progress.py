# SPDX-License-Identifier: Apache-2.0
"""What a run reports on the way: nothing, plain lines for a log, or bars on a terminal."""

import os
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from unlazy.core.entries import entry
from unlazy.core.summaries import counted
from unlazy.experiments.cell import Cell


@runtime_checkable
class Stream(Protocol):
    """The little of a text stream that is used here, standard error or a buffer."""

    def write(self, text: str, /) -> object: ...  # noqa: D102  # as every stream has it
    def flush(self) -> None: ...  # noqa: D102  # as every stream has it
    def isatty(self) -> bool: ...  # noqa: D102  # as every stream has it


class Reporter:
    """Reports nothing; subclasses override. Several cells may be at work at a time."""

    @entry
    def note(self, text: str) -> None:
        """A remark for the user."""

    @entry
    def start(self, name: str, cells: int, stored: int) -> None:
        """The run begins: so many cells, so many of them stored already."""

    @entry
    def cell_started(self, cell: Cell) -> None:
        """The computation of a cell begins."""

    @entry
    def cell_progress(self, cell: Cell, done: int, total: int) -> None:
        """A cell at work is that far."""

    @entry
    def cell_finished(self, cell: Cell, seconds: float) -> None:
        """A cell at work is stored."""

    def hide(self) -> None:
        """Something else is about to be printed, between two cells."""

    def close(self) -> None:
        """No more cells, whether all are done or the run stops early."""


def title(cell: Cell, name: str) -> str:
    """How a cell is called in a run of that name: with its figure, if the run is of several."""
    return str(cell) if cell.experiment == name else f"{cell.experiment}: {cell}"


class LineReporter(Reporter):
    """Writes one plain line per finished cell, for logs."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.name, self.finished, self.cells = "", 0, 0

    def note(self, text: str) -> None:
        """Write the remark."""
        self._line(f"note: {text}")

    def start(self, name: str, cells: int, stored: int) -> None:
        """Write how much there is to do."""
        self.name, self.cells, self.finished = name, cells, stored
        already = f", {stored} of them stored already" if stored else ""
        self._line(f"{name}: {counted(cells, 'cell')}{already}")

    def cell_finished(self, cell: Cell, seconds: float) -> None:
        """Write which cell is done, and how long it took."""
        self.finished += 1
        text = f"[{self.finished}/{self.cells}] {title(cell, self.name)} ({seconds:.1f} s)"
        self._line(text)

    def _line(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()


def _passed(name: str) -> Callable[..., None]:
    """A method that checks, then passes its report on."""

    def report(self: "PassingReporter", *what: Any) -> None:
        self.check()
        getattr(self.reporter, name)(*what)

    return report


class PassingReporter(Reporter):
    """Passes all reports on to another; a run can be stopped and saved wherever it reports.

    Args:
        reporter: Receives all reports.
        check: Called before each; what it raises ends the run.
        after_cell: Called when a cell is stored.
    """

    @entry
    def __init__(
        self, reporter: Reporter, *, check: Callable[[], None], after_cell: Callable[[], None]
    ) -> None:
        self.reporter, self.check, self.after_cell = reporter, check, after_cell

    note, start = _passed("note"), _passed("start")
    cell_started, cell_progress = _passed("cell_started"), _passed("cell_progress")

    @entry
    def cell_finished(self, cell: Cell, seconds: float) -> None:
        """Pass it on, and save."""
        self.reporter.cell_finished(cell, seconds)
        self.after_cell()
        self.check()

    def hide(self) -> None:
        """Pass it on, unchecked."""
        self.reporter.hide()

    def close(self) -> None:
        """Pass it on, unchecked."""
        self.reporter.close()


@entry
def reporter_for(stream: Stream) -> Reporter:
    """The reporter that suits a stream: bars on a terminal, lines elsewhere."""
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return LineReporter(stream)
    from unlazy.experiments.bars import BarReporter

    return BarReporter(stream)
