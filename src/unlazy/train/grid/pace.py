# SPDX-License-Identifier: Apache-2.0
"""How far a grid is, how long it will take, and how many epochs one call trains.

An accelerator runs one program at a time, and whatever else shares it waits for the end of each: a
kernel of a few milliseconds beside a wide network in training, or another grid. By the clock a wide
network's calls are short, and a grid that trains in seconds has few of them. What is computed does
not depend on it.
"""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator

import jax

from unlazy.core.entries import entry
from unlazy.train.loop import Progress

_TURN = 0.05  # seconds

_latest_end = -math.inf  # of a call by any thread


class Pace:
    """The spans of a training, as long as the time of the calls so far suggests.

    On a processor, which threads share without waiting for each other, only the ends count.
    """

    def __init__(self) -> None:
        self._by_clock = jax.default_backend() != "cpu"
        self._next = 1
        self._epochs = self._seconds = 0.0  # of the calls so far, the latest above all

    def spans(self, ends: Iterable[int]) -> Iterator[tuple[int, int]]:
        """From 0 to the last of `ends`, stopping at each of them, and every `_TURN` in between."""
        done = 0
        for end in ends:
            while done < end:
                last = min(end, done + self._next) if self._by_clock else end
                yield done, last
                done = last

    @contextlib.contextmanager
    def timed(self, epochs: int) -> Iterator[None]:
        """Time a call that trains this many epochs.

        The clock starts no earlier than the end of the latest call of any thread: until then the
        accelerator was at work for another thread.
        """
        global _latest_end
        began = time.perf_counter()
        yield
        now = time.perf_counter()
        self._seconds = self._seconds / 2 + now - max(began, _latest_end)
        self._epochs = self._epochs / 2 + epochs
        _latest_end = now
        # At most twice as many as before: the first call of a program takes longer than others.
        fitting = int(self._epochs * _TURN / max(self._seconds, 1e-9))
        self._next = max(1, min(2 * self._next, fitting))


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
