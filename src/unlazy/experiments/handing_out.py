# SPDX-License-Identifier: Apache-2.0
"""Cells computed by workers, of a Dask cluster or of this machine.

This process hands the cells out and collects the results. A worker that is killed costs its cell,
which another is given. When a scheduler goes away, the client waits for it to come back, and hands
out what is not stored.
"""

import contextlib
import secrets
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, runtime_checkable

from unlazy.core.errors import UnlazyError
from unlazy.experiments.cell import Cell, CellResult
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.leases import Leases
from unlazy.experiments.obtaining import Looks, cell_error, stored_result
from unlazy.experiments.store import DamagedCellError, Store
from unlazy.experiments.tasks import (
    Answer,
    CellFailure,
    LostError,
    Outcome,
    Task,
    marker_in,
    reference,
)

GLANCE = 0.5  # seconds between looks at the workers
_MOST_DEATHS = 4  # of workers with the same cell

Arrival = tuple[Cell, CellResult, Answer]


@runtime_checkable
class Places(Protocol):
    """The places for cells that workers have, and who is in them."""

    @property
    def room(self) -> object:
        """What is false if there are no workers."""
        ...

    def look(self) -> list[tuple[Task, bool]]:
        """The tasks of workers that have left, and whether they were killed in the middle."""
        ...

    def first(self, waiting: Collection[Task]) -> int | None:
        """The place in the queue of the first task for which there is room."""
        ...

    def give(self, task: Task) -> None:
        """Give a task to a worker that has room for it."""
        ...

    def show(self, waiting: Collection[Task]) -> None:
        """Show what waits, should the number of workers depend on it."""
        ...

    def answers(self, timeout: float) -> list[tuple[Task, Outcome]]:
        """What has come of tasks, at once or within so many seconds."""
        ...

    def tasks(self) -> list[Task]:
        """Those that workers have."""
        ...

    def stop(self, *, finish: bool) -> None:
        """Let no further task be begun; with `finish`, wait for those at work if they are ours."""
        ...

    def has_lost(self, error: BaseException) -> bool:
        """Whether an error comes of a broken connection to the workers."""
        ...


class HandOut:
    """One pass over cells by workers.

    Args:
        experiments: Where the cells come from; workers must be able to import them.
        store: Where results go, with the leases on its cells.
        leases: Those of this process.
        force: Compute stored cells again.
        note: Told what the user may want to know.
    """

    def __init__(
        self,
        experiments: Iterable[Experiment],
        store: Store,
        leases: Leases,
        *,
        force: bool,
        note: Callable[[str], None],
    ) -> None:
        self.experiments = {e.name: (reference(e), e.on_processor) for e in experiments}
        self.store, self.leases = store, leases
        self.force, self.note = force, note
        self.run = secrets.token_hex(8)
        self.found: set[Cell] = set()
        self.deaths: Counter[Cell] = Counter()  # of workers
        self.told = False  # that there are no workers

    def compute(
        self, cells: Sequence[Cell], connect: Callable[[], AbstractContextManager[Places]]
    ) -> Generator[Arrival, None, None]:
        """Compute all cells at the places that `connect` gives, again if they are lost.

        Yields each cell that has a result, with the result and what the worker said of it.
        """
        self.marker = marker_in(self.store.root)
        self.leases.keep(self.marker)  # what is a day old is removed by other runs
        looks = Looks(self.note)
        while cells:
            with connect() as places:
                lost = False
                while cells and not lost:
                    try:
                        yield from self._hand_out(places, cells)
                    except LostError:
                        lost = True
                        self.note("the connection to the scheduler broke; trying again.")
                    cells = [cell for cell in cells if cell not in self.found]
                    if cells and not lost:
                        looks.wait(len(cells))

    def _hand_out(self, places: Places, cells: Sequence[Cell]) -> Generator[Arrival, None, None]:
        """Let workers compute the cells; those that other runs compute are left."""
        waiting = deque(map(self._task, cells))
        answers: list[tuple[Task, Outcome]] = []
        try:
            while waiting or places.tasks() or answers:
                self._look(places, waiting)
                # Before answers are taken, which may take a while; after an error none is begun.
                while not _failed(answers) and (first := places.first(waiting)) is not None:
                    task = waiting[first]
                    del waiting[first]
                    places.give(task)
                places.show(waiting)
                for task, outcome in answers:
                    answer = _answer(outcome, task.cell, self.store)
                    if answer.kind == "unshared" and self._lease(task.cell):
                        waiting.appendleft(task._replace(leased=True))
                    elif (result := self._taken(task.cell, answer)) is not None:
                        self.found.add(task.cell)
                        yield task.cell, result, answer
                answers = places.answers(GLANCE if places.first(waiting) is None else 0.0)
        except BaseException as error:
            if _is_lost(places, error):
                for cell in cells:  # they will be handed out anew
                    self.leases.give_back(cell.digest)
                raise LostError from error
            with contextlib.suppress(Exception):  # the scheduler may be gone too
                places.stop(finish=isinstance(error, Exception))
            raise

    def _task(self, cell: Cell) -> Task:
        name, on_processor = self.experiments[cell.experiment]
        return Task(
            *(name, cell, str(self.store.root.absolute()), str(self.marker)),
            *(self.run, self.force, False, on_processor),
        )

    def _look(self, places: Places, waiting: deque[Task]) -> None:
        """See to the workers: those that have left, and whether there are any."""
        for task, killed in places.look():
            self.deaths[task.cell] += killed
            if self.deaths[task.cell] >= _MOST_DEATHS:
                _answer(KILLED, task.cell, self.store)
            waiting.appendleft(task)
        if not places.room and not self.told:
            self.told = True
            self.note("the scheduler has no workers; waiting for them.")

    def _lease(self, cell: Cell) -> bool:
        """Take the lease for a worker; False if another run has it or has stored the cell."""
        if not self.leases.take(cell.digest):
            return False
        if self.force or self._stored(cell) is None:
            return True
        self.leases.give_back(cell.digest, done=True)
        return False

    def _taken(self, cell: Cell, answer: Answer) -> CellResult | None:
        """The result of a cell after an answer, stored if the worker could not; None if none."""
        if answer.kind == "busy":
            return None
        if answer.kind != "computed" or answer.result is None:
            return self._stored(cell)
        self.store.write(cell, answer.result, answer.meta or {}, replace=True)
        self.leases.give_back(cell.digest, done=True)
        return answer.result

    def _stored(self, cell: Cell) -> CellResult | None:
        with contextlib.suppress(DamagedCellError):
            return stored_result(self.store, cell)
        return None


def _is_lost(places: Places, error: BaseException) -> bool:
    """Whether an error comes from a broken connection to the workers."""
    if isinstance(error, UnlazyError) or not isinstance(error, Exception):
        return False
    return isinstance(error, LostError) or places.has_lost(error)


def _failed(answers: Sequence[tuple[Task, Outcome]]) -> bool:
    return not all(isinstance(outcome, Answer) for _, outcome in answers)


def _answer(outcome: Outcome, cell: Cell, store: Store) -> Answer:
    """What the worker said, or the error of the cell."""
    if isinstance(outcome, Answer):
        return outcome
    cause = outcome.args[0] if isinstance(outcome, CellFailure) else outcome
    # The others are of the store, of a worker with other code, or of a broken connection.
    is_of_cell = cause is not outcome or cause is KILLED or not isinstance(cause, UnlazyError)
    if not isinstance(cause, Exception) or isinstance(cause, LostError) or not is_of_cell:
        raise outcome
    raise cell_error(cell, cause, store.root) from cause


KILLED = UnlazyError("the workers that computed it were killed, again and again.")
