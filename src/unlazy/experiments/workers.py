# SPDX-License-Identifier: Apache-2.0
"""Cells computed one after the other, or several at a time in threads.

Threads, not processes: JAX lets others run while it compiles and while the device computes, and
threads share the device's memory and the compiled programs.
"""

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from typing import TypeVar

from unlazy.experiments.cell import Cell

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
