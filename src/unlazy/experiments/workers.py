# SPDX-License-Identifier: Apache-2.0
"""Cells computed one after the other, or some at a time in threads.

Threads, not processes: JAX lets others run while it compiles and while the device computes, and one
process has the device's memory and the compiled programs to itself.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait

from unlazy.experiments.cell import Cell, CellResult

_ON_AN_ACCELERATOR = 4


def default_jobs() -> int:
    """One; several on an accelerator, which would otherwise wait for every compilation."""
    if "jax" not in sys.modules:  # then the cells do not use it
        return 1
    import jax

    return 1 if jax.default_backend() == "cpu" else _ON_AN_ACCELERATOR


def compute_all(
    compute: Callable[[Cell], CellResult],
    cells: Sequence[Cell],
    jobs: int,
    *,
    stopped: threading.Event,
) -> dict[Cell, CellResult]:
    """The results of all cells, begun in order.

    The first error ends it: no further cell is begun, and those at work are waited for, so that
    what they computed is stored. An interrupt does not wait as long: it sets `stopped`, on which
    cells at work should give up.
    """
    if jobs == 1:  # in this thread, where the caller's scoped settings hold
        return {cell: compute(cell) for cell in cells}
    with ThreadPoolExecutor(jobs) as pool:
        futures = {cell: pool.submit(compute, cell) for cell in cells}
        try:
            wait(futures.values(), return_when=FIRST_EXCEPTION)
        except BaseException:
            stopped.set()
            raise
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    # Cells were begun in order: the one that failed comes before all that were never begun.
    return {cell: future.result() for cell, future in futures.items()}
