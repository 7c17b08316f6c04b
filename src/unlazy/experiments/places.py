# SPDX-License-Identifier: Apache-2.0
"""Which cells the workers of a Dask cluster have, and for how many more they have room.

A cell is given to one worker, by its address, once that has room: each cell that a worker has when
it dies was begun. Dask by itself would spread waiting cells over the workers as well, and hold a
death against all of them.
"""

import itertools
import queue
import time
from collections import Counter, deque
from collections.abc import Collection, Mapping
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

from unlazy.experiments.handing_out import GLANCE, KILLED
from unlazy.experiments.tasks import LostError, Outcome, Task, perform

RESOURCE = "cells"  # of Dask's; a worker may declare how many cells it has room for
_NOBODY = "unlazy: shown, not given"  # a resource that no worker has
_SHOWN = 100  # tasks; Dask looks at no more when it reckons how many workers it needs


class _Given(NamedTuple):
    task: Task
    worker: str


class DaskPlaces:
    """The places for cells that the workers of a client's scheduler have, and who is in them."""

    def __init__(self, client: Any) -> None:
        self.client, self.scheduler = client, None
        self.given: dict[Any, _Given] = {}  # by futures
        self.room: dict[str, int] = {}  # of the workers that may be given cells
        self.used: Counter[str] = Counter()
        self.free: deque[str] = deque()  # a worker for each free place, emptier ones first
        self._done: queue.SimpleQueue[tuple[Any, Outcome]] = queue.SimpleQueue()
        self._shown: list[Any] = []
        self._next = 0.0  # look

    def look(self) -> list[tuple[Task, bool]]:
        """Look at the workers, if it is time to.

        Returns the tasks of those that have left, and whether they were killed in the middle of it.

        Raises:
            LostError: If the scheduler is gone, or another has taken its place.
        """
        if time.monotonic() < self._next:
            return []
        workers = self._workers()
        self._next = time.monotonic() + GLANCE
        lost = {
            future: given for future, given in self.given.items() if given.worker not in workers
        }
        killed = {worker: self._killed_with(worker) for worker in {g.worker for g in lost.values()}}
        self._cancel(list(lost))
        for future in lost:
            del self.given[future]
        self._count(workers)
        return [(given.task, future.key in killed[given.worker]) for future, given in lost.items()]

    def _workers(self) -> Mapping[str, Mapping[str, Any]]:
        while True:
            info = self.client.scheduler_info(n_workers=-1)
            self.scheduler = self.scheduler or info["id"]
            if self.client.status != "running" or info["id"] != self.scheduler:
                raise LostError
            # The client's own regular look, which asks for no workers, may have come between.
            if len(info["workers"]) == info["n_workers"]:
                return info["workers"]

    def _killed_with(self, worker: str) -> Collection[str]:
        """The keys of the tasks that a worker had when it died; none if it was retired."""
        try:
            events = [event for _, event in self.client.get_events(worker)]
        except OSError as error:
            raise LostError from error
        leavings = [event for event in events if event.get("action") == "remove-worker"]
        last = leavings[-1] if leavings else {}
        return [] if last.get("expected") else last.get("processing-tasks", [])

    def _count(self, workers: Mapping[str, Mapping[str, Any]]) -> None:
        """Count the places. If some workers bound their cells, the others are given none."""
        self.bounded = any(RESOURCE in worker["resources"] for worker in workers.values())
        self.room = {
            address: int(
                worker["resources"].get(RESOURCE, 0) if self.bounded else worker["nthreads"]
            )
            for address, worker in workers.items()
            if worker["status"] == "running"
        }
        self.used = Counter(given.worker for given in self.given.values())
        places = [(n, w) for w, room in self.room.items() for n in range(self.used[w], room)]
        self.free = deque(worker for _, worker in sorted(places))

    def first(self, waiting: Collection[Task]) -> int | None:
        """The place in the queue of the first task, if a worker has room: any can compute any."""
        return 0 if waiting and self.free else None

    def give(self, task: Task) -> None:
        """Give a task to a worker; there must be a free place."""
        worker = self.free.popleft()
        self.used[worker] += 1
        # Not `pure`: each attempt at a cell is another task. Runs that share a bounded worker are
        # bounded together by the resource.
        resources = {RESOURCE: 1} if self.bounded else None
        future = self.client.submit(perform, task, pure=False, workers=worker, resources=resources)
        self.given[future] = _Given(task, worker)

        async def fetch() -> None:
            # On the client's own thread, so that nothing else waits for an answer whose worker dies
            # before it is fetched.
            try:
                outcome = await future
            except BaseException as error:
                outcome = _meant(error)
            self._done.put((future, outcome))

        self.client.loop.add_callback(fetch)

    def show(self, waiting: Collection[Task]) -> None:
        """Show the scheduler that tasks wait, so that a cluster that grows by need does grow."""
        wanted = min(len(waiting), _SHOWN)
        for task in itertools.islice(waiting, len(self._shown), wanted):
            options = {"pure": False, "resources": {_NOBODY: 1}}
            self._shown.append(self.client.submit(perform, task, **options))
        self._cancel(self._shown[wanted:])
        del self._shown[wanted:]

    def answers(self, timeout: float) -> list[tuple[Task, Outcome]]:
        """What has come of tasks, at once or within so many seconds."""
        found: list[tuple[Task, Outcome]] = []
        while not self._done.empty() or not found:
            try:
                future, outcome = self._done.get(timeout=timeout)
            except queue.Empty:
                break
            if given := self.given.pop(future, None):
                found.append((given.task, outcome))
                self.used[given.worker] -= 1
                if self.used[given.worker] < self.room.get(given.worker, 0):
                    self.free.append(given.worker)
        return found

    def tasks(self) -> list[Task]:
        """Those that workers have."""
        return [given.task for given in self.given.values()]

    def stop(self, *, finish: bool) -> None:
        """Let no further task be begun; those at work are finished by the cluster."""
        del finish
        self._cancel([*self.given, *self._shown])

    def has_lost(self, error: BaseException) -> bool:
        """Whether an error comes of a broken connection to the scheduler."""
        del error
        return self.client.status != "running"

    def _cancel(self, futures: list[Any]) -> None:
        if futures:  # none are a request to the scheduler all the same
            self.client.cancel(futures)


def _meant(error: BaseException) -> BaseException:
    """What an error of Dask's own means; others are a worker's answer."""
    from distributed import KilledWorker
    from distributed.comm.core import CommClosedError

    if isinstance(error, CommClosedError | TimeoutError | CancelledError):
        return LostError()
    # Of a worker that comes back under its address, Dask counts the deaths.
    return KILLED if isinstance(error, KilledWorker) else error
