# SPDX-License-Identifier: Apache-2.0
"""How many epochs are trained in one call of the compiled program.

An accelerator runs one program at a time, and whatever else shares it waits for the end of each: a
kernel of a few milliseconds beside a wide network in training, or another grid. By the clock a wide
network's calls are short, and a grid that trains in seconds has few of them. What is computed does
not depend on it.
"""

import contextlib
import math
import time
from collections.abc import Iterable, Iterator

import jax

_TURN = 0.05  # seconds

_latest_end = -math.inf  # of a call by any thread


class Pace:
    """The spans of a training, each as long as the calls before it make advisable.

    A processor is shared by other means: there only the ends count.
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
        """A call that trains that many.

        Its time counts from the end of the call before on, whoever's that was: until then the
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
