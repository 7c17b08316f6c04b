# SPDX-License-Identifier: Apache-2.0
"""How a grid of cells runs on workers that fail: event by event, and in the mean."""

import collections
import heapq
import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Schedule(NamedTuple):
    """How a grid went: its end, failures, and seconds of workers that gave no result."""

    end: float
    failures: int
    lost: float


def simulate(
    times: Iterable[float],
    workers: int,
    *,
    mtbf: float = math.inf,
    lease: float = 0.0,
    repair: float = 0.0,
    gap: float = 0.0,
    seed: int = 0,
) -> Schedule:
    """Run the cells in order; the scheduler hands out one cell per `gap` seconds at most.

    A worker fails after an exponential time of work with mean `mtbf`. Its cell starts anew when its
    lease has run out, and the worker comes back when it is repaired.
    """
    rng = np.random.default_rng(seed)
    queue = collections.deque(times)
    left, idle = len(queue), workers
    now = last = end = lost = 0.0
    failures = order = 0
    events: list[tuple[float, int, float | None]] = []  # a cell is free, or for None a worker
    while left:
        while idle and queue:
            seconds = queue.popleft()
            idle -= 1
            last = max(now, last + gap)
            until = rng.exponential(mtbf) if math.isfinite(mtbf) else math.inf
            if until < seconds:
                failures, lost = failures + 1, lost + until + repair
                due = [(until + lease, seconds), (until + repair, None)]
            else:
                left, end = left - 1, max(end, last + seconds)
                due = [(seconds, None)]
            for after, cell in due:
                order += 1  # events at one time come in the order of their making
                heapq.heappush(events, (last + after, order, cell))
        if left:
            now, _, cell = heapq.heappop(events)
            if cell is None:
                idle += 1
            else:
                queue.append(cell)
    return Schedule(end, failures, lost)


def expected_failures(times: np.ndarray, mtbf: float) -> float:
    """Failures until every cell has a result: a cell of time t has exp(t/mtbf) - 1 in the mean."""
    return float(np.expm1(times / mtbf).sum())


def expected_seconds(times: np.ndarray, mtbf: float, repair: float) -> float:
    """Seconds of workers until every cell has a result, its lost starts and repairs included.

    Each failure costs a repair, and between two failures a worker works for `mtbf` in the mean.
    """
    return (mtbf + repair) * expected_failures(times, mtbf)


def cell_times(
    count: int, mean: float, spread: float, measured: np.ndarray | None = None
) -> np.ndarray:
    """Times drawn from measured ones; without any, log-normal ones."""
    rng = np.random.default_rng(1)
    if measured is not None:
        return rng.choice(np.atleast_1d(measured), count)
    s2 = math.log1p(spread**2)
    return rng.lognormal(math.log(mean) - s2 / 2, math.sqrt(s2), count)
