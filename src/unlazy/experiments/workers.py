# SPDX-License-Identifier: Apache-2.0
"""Cells computed one after the other, or several at a time in threads.

Threads, not processes: JAX lets others run while it compiles and while the device computes, and
threads share the device's memory and the compiled programs.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from unlazy.experiments.cell import Cell, CellResult
from unlazy.experiments.obtaining import Looks, cell_error, obtain
from unlazy.experiments.passes import Pass
from unlazy.experiments.progress import Reporter

Result = TypeVar("Result")

_MOST = 6
_ROOM = 2**34  # bytes of an accelerator's memory that the papers' largest cells take, or less


def default_jobs() -> int:
    """One; on an accelerator, which would idle during compilations, up to six that fit it."""
    if "jax" not in sys.modules:  # then the cells do not use it
        return 1
    import jax

    statistics = jax.devices()[0].memory_stats() or {}  # none of a processor
    return min(_MOST, max(1, statistics.get("bytes_limit", 0) // _ROOM))


class Threads:
    """Computes the cells of a pass in threads of this process."""

    def __init__(self, run: Pass, reporter: Reporter) -> None:
        self.run, self.store, self.reporter, self.jobs = run, run.store, reporter, 1
        self.lock = threading.RLock()  # of the reporter, and of what is noted in the pass
        self.stopped = threading.Event()

    def compute(self, jobs: int | None) -> None:
        """Compute what is missing; at the end, wait for what other runs compute."""
        run = self.run
        run.look(self._note)
        self.reporter.start(run.experiment.name, len(run.cells), run.stored)
        if not (missing := run.missing):
            return
        looks = Looks(self._note)
        default = 1 if run.experiment.on_processor else default_jobs()
        self.jobs = min(jobs or default, len(missing))
        with self.store.leases() as self.leases:
            while missing:
                found = compute_all(self._obtain, missing, self.jobs, stopped=self.stopped)
                run.found |= {cell: result for cell, result in found.items() if result is not None}
                missing = run.missing
                if missing:
                    looks.wait(len(missing))

    def _note(self, text: str) -> None:
        with self.lock:
            self.run.notes.append(text)
            self.reporter.note(text)

    def _obtain(self, cell: Cell) -> CellResult | None:
        """Compute and store a cell, unless another run just did; None if one does so now."""
        with self.leases.holding(cell.digest) as ours:
            if not ours:
                return None
            began = time.perf_counter()
            with self.lock:
                self.reporter.cell_started(cell)
            with self.run.experiment.device():
                work = obtain(self.store, cell, self._compute, force=self.run.force, jobs=self.jobs)
            with self.lock:
                self.run.computed += work.computed
                self.reporter.cell_finished(cell, time.perf_counter() - began)
            return work.result

    def _compute(self, cell: Cell) -> CellResult:
        def progress(done: int, total: int) -> None:
            if self.stopped.is_set():
                raise InterruptedError
            with self.lock:
                self.reporter.cell_progress(cell, done, total)

        try:
            return self.run.experiment.run(cell.config, seed=cell.seed, progress=progress)
        except Exception as error:
            if self.jobs > 1 and not self.stopped.is_set():
                self._note(f"the cell '{cell}' failed; those at work are finished first.")
            raise cell_error(cell, error, self.store.root) from error


def compute_all(
    compute: Callable[[Cell], Result],
    cells: Sequence[Cell],
    jobs: int,
    *,
    stopped: threading.Event,
) -> dict[Cell, Result]:
    """The results of all cells, begun in order.

    After the first error no further cell is begun, and those at work are finished and stored. An
    interrupt sets `stopped`, on which cells at work should give up.
    """
    if jobs == 1:  # in this thread, where the caller's scoped settings hold
        return {cell: compute(cell) for cell in cells}
    pool = ThreadPoolExecutor(jobs)
    futures: dict[Cell, Future[Result]] = {}
    try:
        for cell in cells:
            futures[cell] = pool.submit(compute, cell)
        wait(futures.values(), return_when=FIRST_EXCEPTION)
        _finish(pool, futures)
    except BaseException:
        stopped.set()
        _finish(pool, futures)
        raise
    # Cells were begun in order: the one that failed comes before all that were never begun.
    return {cell: future.result() for cell, future in futures.items()}


def _finish(pool: ThreadPoolExecutor, futures: Mapping[Cell, Future]) -> None:
    """Begin no further cell, and wait for those at work."""
    pool.shutdown(wait=False, cancel_futures=True)
    # Not by joining threads: after an interrupted join Python takes a thread for ended.
    wait([future for future in futures.values() if not future.cancelled()])
