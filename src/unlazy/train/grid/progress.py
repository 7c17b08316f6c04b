# SPDX-License-Identifier: Apache-2.0
"""How far a grid is, and how long it will take."""

import threading
import time
from collections.abc import Callable

from unlazy.core.entries import entry
from unlazy.train.loop import Progress


class Meter:
    """Adds up what several threads have done, and reports it one call at a time."""

    def __init__(self, progress: Progress | None, total: int) -> None:
        self._progress, self._total = progress, total
        self._done, self._lock = 0, threading.Lock()

    def add(self, amount: int) -> None:
        """Report that so much more is done."""
        if self._progress is None:
            return
        with self._lock:
            self._done += amount
            self._progress(self._done, self._total)


class TimeLeft:
    """A `progress` for `fit_grid` and `fit` that says in words how much time is left.

    Args:
        tell: called with one line each time, such as `print`.

    Example:
        >>> progress = TimeLeft(print)
        >>> progress(0, 200)
        0% done
        >>> progress(200, 200)
        100% done, 0 s left
    """

    @entry
    def __init__(self, tell: Callable[[str], object]) -> None:
        self.tell = tell
        self._start: tuple[float, int] | None = None

    @entry
    def __call__(self, done: int, total: int) -> None:
        """Tell how far the work is; the first call starts the clock."""
        left = self.seconds_left(done, total)
        words = "" if left is None else f", {left:.0f} s left"
        self.tell(f"{100 * done // max(total, 1)}% done{words}")

    @entry
    def seconds_left(self, done: int, total: int) -> float | None:
        """The time left at the speed since the first call; None while nothing has been done."""
        now = time.perf_counter()
        if self._start is None:
            self._start = (now, done)
        began, already = self._start
        if done <= already:
            return None
        return (now - began) * (total - done) / (done - already)
