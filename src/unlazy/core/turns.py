# SPDX-License-Identifier: Apache-2.0
"""Whose turn it is on an accelerator: of programs that run, or of programs that are tuned.

XLA chooses kernels by the time that they take. Beside other threads' work that time says nothing,
and takes long to find out: a training step on a GPU was tuned in 4 s to 1.6 ms, and beside two
other trainings in 95 s to 4.1 ms.
"""

import contextlib
import threading
from collections.abc import Iterator


class Turns:
    """Any number of threads that run, or any number that tune, but never both."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = self._tuning = self._waiting_to_tune = 0

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """From a program's start to its end; short, since whoever wants to tune waits for it.

        Not to be nested: the inner one would wait for a thread that waits for the outer one.
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
        """Until no one tunes, for what runs without a turn, even from within one."""
        with self._changed:
            self._changed.wait_for(lambda: not self._tuning)

    @contextlib.contextmanager
    def tuning(self) -> Iterator[None]:
        """While programs are tuned, which XLA does one by one if several threads ask for it."""
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
