# SPDX-License-Identifier: Apache-2.0
"""Whether an accelerator runs programs or tunes them: turns that threads take.

XLA chooses kernels by timing them. While other threads work, the times mean nothing and take long
to measure: a training step on a GPU was tuned in 4 s to 1.6 ms alone, and in 95 s to 4.1 ms beside
two other trainings.
"""

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    """Any number of threads run, or any number tune, but never both at a time."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = self._tuning = self._waiting_to_tune = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Hold a turn while a program runs; keep it short, since threads that tune wait for it.

        Do not nest it: the inner one would wait for a thread that waits for the outer one.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._tuning and not self._waiting_to_tune)
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait(self) -> None:
        """Wait until no thread tunes; for what runs without a turn, even inside of one."""
        with self._changed:
            self._changed.wait_for(lambda: not self._tuning)

    @contextlib.contextmanager
    def tuning(self) -> Iterator[None]:
        """Hold a turn while programs are tuned; XLA tunes one at a time if several threads ask."""
        with self._changed:
            self._waiting_to_tune += 1
            try:
                self._changed.wait_for(lambda: not self._running)
                self._tuning += 1
            finally:
                self._waiting_to_tune -= 1
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self._tuning -= 1
                self._changed.notify_all()


TURNS = Turns()
