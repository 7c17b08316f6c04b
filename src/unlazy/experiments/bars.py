# SPDX-License-Identifier: Apache-2.0
"""The progress of a run as bars on a terminal."""

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import IO, cast

from rich import progress
from rich.console import Console

from unlazy.core.summaries import counted
from unlazy.experiments.cell import Cell
from unlazy.experiments.progress import Reporter, Stream, title


@contextlib.contextmanager
def bar_on(
    stream: Stream, name: str, *, check: Callable[[], None] = lambda: None
) -> Iterator[Callable[[int, int], None]]:
    """One bar for one piece of work; nothing is shown if the stream is no terminal.

    `check` is called whenever the work reports, and may raise to end it.
    """
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda done, expected: check()  # noqa: ARG005  # the signature of progress
        return
    with _bars(stream) as bars:
        task = bars.add_task(name, total=None)

        def show(done: int, expected: int) -> None:
            check()
            bars.update(task, completed=done, total=expected)

        yield show


def _bars(stream: Stream) -> progress.Progress:
    return progress.Progress(
        progress.TextColumn("{task.description}", markup=False),
        progress.BarColumn(),
        progress.TaskProgressColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(file=cast(IO[str], stream)),
        transient=True,
        speed_estimate_period=600,  # a cell may take minutes
    )


class BarReporter(Reporter):
    """Shows a bar over the cells with the time left, and one inside each cell at work."""

    def __init__(self, stream: Stream) -> None:
        self.bars = _bars(stream)
        self.finished = 0
        self.inside: dict[Cell, progress.TaskID] = {}
        self.parts: dict[Cell, float] = {}  # how much of it is done

    def note(self, text: str) -> None:
        """Print the remark above the bars."""
        self.bars.console.print(f"note: {text}", markup=False, highlight=False)

    def start(self, name: str, cells: int, stored: int) -> None:
        """Show a bar over the cells to compute; stored ones would spoil the time left."""
        self.name = name
        every = counted(cells, "cell")
        todo = f"{cells - stored} of {every} left" if stored else every
        self.all = self.bars.add_task(f"{name}, {todo}", total=cells - stored)
        if stored < cells:
            self.bars.start()

    def hide(self) -> None:
        """Remove the bars until the next cell."""
        self.bars.stop()

    def cell_started(self, cell: Cell) -> None:
        """Show the cell's own bar, moving to and fro until the cell reports progress."""
        self.bars.start()  # which does nothing if they are there
        self.inside[cell] = self.bars.add_task(f"  {title(cell, self.name)}", total=None)

    def cell_progress(self, cell: Cell, done: int, total: int) -> None:
        """Move both bars: with few cells, the time left comes from inside them."""
        self.bars.update(self.inside[cell], completed=done, total=total)
        self.parts[cell] = done / max(total, 1)
        self._move()

    def cell_finished(self, cell: Cell, seconds: float) -> None:  # noqa: ARG002  # told by the bar
        """Remove the cell's own bar."""
        self.bars.remove_task(self.inside.pop(cell))
        self.parts.pop(cell, None)
        self.finished += 1
        self._move()

    def _move(self) -> None:
        self.bars.update(self.all, completed=self.finished + sum(self.parts.values()))

    def close(self) -> None:
        """Remove the bars."""
        self.bars.stop()
