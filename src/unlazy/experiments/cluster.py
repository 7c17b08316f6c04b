# SPDX-License-Identifier: Apache-2.0
"""Cells computed by the workers of a Dask cluster; this process hands them out and collects them.

A worker that is killed costs its cell, which another is given. When the scheduler goes away, the
client waits for it to come back, and hands out what is not stored.
"""

import contextlib
import http.client
import secrets
import urllib.request
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from typing import Any

from unlazy.core.errors import ArgumentsError, UnlazyError
from unlazy.experiments.cell import Cell, CellResult
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.leases import Leases
from unlazy.experiments.local_workers import LocalWorkers
from unlazy.experiments.obtaining import Looks, cell_error, stored_result
from unlazy.experiments.places import GLANCE, LostError, Outcome, Places
from unlazy.experiments.store import DamagedCellError, Store
from unlazy.experiments.tasks import Answer, CellFailure, Task, marker_in, reference

_MOST_DEATHS = 4  # of workers with the same cell
_KILLED = "the workers that computed it were killed, again and again."
_FIRST, _AGAIN = 10, 60  # seconds until a scheduler must be reached, at first and once it was
_DASHBOARD = 2  # seconds that it has to answer

Arrived = Callable[[Cell, bool, float], None]


class ClusterRun:
    """One pass over the cells of an experiment on a cluster.

    Args:
        experiment: Where the cells come from; workers must be able to import it.
        store: Where results go, with the leases on its cells.
        leases: Those of this process.
        force: Compute stored cells again.
        arrived: Told of each cell that has a result, whether it was computed for this run, and how
            long that took.
        note: Told what the user may want to know.
    """

    def __init__(
        self,
        experiment: Experiment,
        store: Store,
        leases: Leases,
        *,
        force: bool,
        arrived: Arrived,
        note: Callable[[str], None],
    ) -> None:
        self.name, self.store, self.leases = reference(experiment), store, leases
        self.force, self.arrived, self.note = force, arrived, note
        self.run = secrets.token_hex(8)
        self.found: dict[Cell, CellResult] = {}
        self.deaths: Counter[Cell] = Counter()  # of workers
        self.local: LocalWorkers | None = None
        self.told = False  # that there are no workers

    def results(
        self, cells: Sequence[Cell], scheduler: str | None, workers: int, jobs: int | None
    ) -> dict[Cell, CellResult]:
        """The results of all cells, by the scheduler at that address or so many local workers."""
        check_dask()
        self.marker = marker_in(self.store.root)
        self.leases.keep(self.marker)  # what is a day old is removed by other runs
        if scheduler is not None:
            self._compute(cells, scheduler)
        else:
            with LocalWorkers(workers, jobs, self.note) as self.local:
                self._compute(cells, self.local.address)
        return self.found

    def _compute(self, cells: Sequence[Cell], address: str) -> None:
        looks, patience = Looks(self.note), _FIRST
        while cells:
            with _client(address, patience) as client:
                if patience == _FIRST and self.local is None and (link := _dashboard(client)):
                    self.note(f"dashboard: {link}")
                patience = _AGAIN
                lost = False
                while cells and not lost:
                    try:
                        self._hand_out(client, cells)
                    except LostError:
                        lost = True
                        self.note(f"the connection to {address} broke; trying again.")
                    cells = [cell for cell in cells if cell not in self.found]
                    if cells and not lost:
                        looks.wait(len(cells))

    def _hand_out(self, client: Any, cells: Sequence[Cell]) -> None:
        """Let workers compute the cells; those that other runs compute are left."""
        places, waiting = Places(client), deque(map(self._task, cells))
        answers: list[tuple[Task, Outcome]] = []
        try:
            while waiting or places.given or answers:
                self._tend(places, waiting)
                # Before answers are taken, which may take a while; after an error none is begun.
                while waiting and places.free and not _failed(answers):
                    places.give(waiting.popleft())
                if self.local is None:
                    places.show(waiting)
                for task, outcome in answers:
                    if self._take(task.cell, self._answer(outcome, task.cell)):
                        waiting.appendleft(task._replace(leased=True))
                answers = places.answers(0.0 if waiting and places.free else GLANCE)
        except BaseException as error:
            if _is_lost(client, error):
                for cell in cells:  # they will be handed out anew
                    self.leases.give_back(cell.digest)
                raise LostError from error
            self._stop(places, error)
            raise

    def _task(self, cell: Cell) -> Task:
        return Task(
            *(self.name, cell, str(self.store.root.absolute()), str(self.marker)),
            *(self.run, self.force, False),
        )

    def _tend(self, places: Places, waiting: deque[Task]) -> None:
        """See to the workers: those that have left, and whether there are any."""
        if self.local is not None:
            self.local.tend()
        for task, killed in places.look():
            self.deaths[task.cell] += killed
            if self.deaths[task.cell] >= _MOST_DEATHS:
                reason = UnlazyError(_KILLED)
                raise cell_error(task.cell, reason, self.store.root) from reason
            waiting.appendleft(task)
        if not places.room and self.local is None and not self.told:
            self.told = True
            self.note("the scheduler has no workers; waiting for them.")

    def _answer(self, outcome: Outcome, cell: Cell) -> Answer:
        """What the worker said, or the error of the cell."""
        from distributed import KilledWorker
        from distributed.comm.core import CommClosedError

        if isinstance(outcome, Answer):
            return outcome
        try:
            raise outcome
        except (CommClosedError, TimeoutError, CancelledError) as error:
            raise LostError from error
        except KilledWorker:  # of one that comes back under its address, Dask counts the deaths
            reason = UnlazyError(_KILLED)
            raise cell_error(cell, reason, self.store.root) from reason
        except CellFailure as error:
            raise cell_error(cell, error.args[0], self.store.root) from error.args[0]
        except UnlazyError:  # of the store, or of a worker with other code
            raise
        except Exception as error:
            raise cell_error(cell, error, self.store.root) from error

    def _take(self, cell: Cell, answer: Answer) -> bool:
        """Take an answer; whether the cell is to be computed under a lease of ours."""
        if answer.kind == "busy":
            return False
        if answer.kind == "unshared":
            return self._lease(cell)
        if answer.kind == "computed" and answer.result is not None:
            result = answer.result
            self.store.write(cell, result, answer.meta or {}, replace=True)
            self.leases.give_back(cell.digest, done=True)
            self._keep(cell, result, answer)
        elif (result := self._stored(cell)) is not None:
            self._keep(cell, result, answer)
        return False

    def _lease(self, cell: Cell) -> bool:
        """Take the lease for a worker; False if another run has it or has stored the cell."""
        if not self.leases.take(cell.digest):
            return False
        if self.force or (result := self._stored(cell)) is None:
            return True
        self.leases.give_back(cell.digest, done=True)
        self._keep(cell, result, Answer("stored"))
        return False

    def _stored(self, cell: Cell) -> CellResult | None:
        with contextlib.suppress(DamagedCellError):
            return stored_result(self.store, cell)
        return None

    def _keep(self, cell: Cell, result: CellResult, answer: Answer) -> None:
        self.found[cell] = result
        self.arrived(cell, answer.computed, answer.seconds)

    def _stop(self, places: Places, error: BaseException) -> None:
        """Begin no further cell; unless interrupted, let local workers finish those at work."""
        with contextlib.suppress(Exception):  # the scheduler may be gone too
            places.cancel()
        if self.local is not None and isinstance(error, Exception):
            self.local.finish(self.leases, [task.cell.digest for task in places.tasks()])


def _failed(answers: Sequence[tuple[Task, Outcome]]) -> bool:
    return not all(isinstance(outcome, Answer) for _, outcome in answers)


def _is_lost(client: Any, error: BaseException) -> bool:
    """Whether an error comes from a broken connection to the scheduler."""
    if isinstance(error, UnlazyError | KeyboardInterrupt | SystemExit):
        return False
    return isinstance(error, LostError) or client.status != "running"


def check_dask() -> None:
    """Raise unless Dask is installed."""
    try:
        import distributed  # noqa: F401  # is it there?
    except ImportError as error:
        raise UnlazyError(
            "a cluster needs Dask, which is not installed: pip install 'unlazy[dask]'."
        ) from error


@contextlib.contextmanager
def _client(address: str, patience: int) -> Iterator[Any]:
    """A connection to the scheduler."""
    from distributed import Client

    try:
        _check_certificates(address)
        client = Client(address, timeout=patience, set_as_default=False)
    except OSError as error:
        raise UnlazyError(
            f"the scheduler at {address} cannot be reached: {error}. Finished cells are stored."
        ) from error
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # nothing is lost when it cannot say goodbye
            client.close(timeout=2)


def _check_certificates(address: str) -> None:
    """Raise if the scheduler asks for TLS, and Dask knows of no certificates."""
    from distributed import Security

    if not address.startswith("tls:"):
        return
    if Security().get_connection_args("client")["ssl_context"] is None:
        raise ArgumentsError(
            "`scheduler` must be an address without TLS where Dask's settings name no "
            f"certificates, got scheduler={address!r}. Set ca-file, client.cert and client.key of "
            "distributed.comm.tls."
        )


def _dashboard(client: Any) -> str | None:
    """The address of the scheduler's dashboard, if it answers."""
    # A scheduler without a dashboard names an address too. KeyError: it names none, or Dask's
    # settings for the address ask for a variable that is not set.
    with contextlib.suppress(KeyError, ValueError, OSError, http.client.HTTPException):
        link = client.dashboard_link
        with urllib.request.urlopen(link, timeout=_DASHBOARD):
            return link
    return None
