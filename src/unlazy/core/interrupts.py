# SPDX-License-Identifier: Apache-2.0
"""Interrupts of the command line: none is lost, and a second one ends the process at once.

Python raises `KeyboardInterrupt` wherever the main thread happens to be. In a callback whose
exceptions nobody catches, such as those that JAX registers with the garbage collector, it is
printed and forgotten. This module also remembers the signal: it raises it again when Python reports
that it was dropped, and the run asks for it wherever it can stop.

A thread reads the signals as they come, since the main thread sees none while XLA compiles.
"""

import _thread
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NoReturn, TypeVar

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_AGAIN = 255  # no number of a signal
_PAUSE = 0.02  # seconds until an interrupt that could not be raised is tried again
_GLANCE = 0.1  # seconds between looks for an interrupt that was dropped
_BOUNCE = 0.2  # seconds in which a second signal is the first one, passed on by another program

Result = TypeVar("Result")


class Interrupts:
    """The signals that ask this process to end."""

    def __init__(self) -> None:
        self.received: int | None = None  # the number of the first one
        self._active = self._settled = self._repeated = False
        self._wakeup = -1

    @property
    def exit_code(self) -> int:
        """128 plus the number of the signal, as shells do: 130 for Ctrl-C."""
        return 128 + (self.received or signal.SIGINT)

    def check(self) -> None:
        """Raise `KeyboardInterrupt` if a signal came, whatever became of its own exception."""
        if self.received is not None and not self._settled:
            raise KeyboardInterrupt

    def settle(self) -> None:
        """Let the outcome stand: signals no longer raise, but two still end the process."""
        self._settled = True

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Handle the signals inside the scope, then restore the handlers; may be nested."""
        undo = self.watch()
        try:
            yield
        finally:
            undo()

    def watch(self) -> Callable[[], None]:
        """Handle the signals from now on; the function returned puts the old handlers back."""
        if self._active or threading.current_thread() is not threading.main_thread():
            return lambda: None
        self.received, self._active, self._settled, self._repeated = None, True, False, False
        reading, self._wakeup = os.pipe()
        os.set_blocking(self._wakeup, False)
        before = signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)
        # A signal that is ignored stays ignored, as under `nohup`.
        ours = [s for s in _SIGNALS if signal.getsignal(s) not in (signal.SIG_IGN, None)]
        handlers = {number: signal.signal(number, self._handle) for number in ours}
        hook, sys.unraisablehook = sys.unraisablehook, self._unraisable
        self._next_hook = hook
        watcher = threading.Thread(target=self._watch, args=(reading,), daemon=True)
        watcher.start()

        def undo() -> None:
            signal.set_wakeup_fd(before)
            for number, handler in handlers.items():
                signal.signal(number, handler)
            sys.unraisablehook = hook
            os.close(self._wakeup)
            watcher.join()
            self.received, self._active = None, False

        return undo

    def aside(self, work: Callable[[], Result]) -> Result:
        """Run `work` on another thread, so that an interrupt is raised here while it still runs.

        The main thread sees no signal inside a long call of LAPACK or XLA. After a
        `KeyboardInterrupt` from here the work goes on: `leave` ends the process with it.
        """
        if not self._active or threading.current_thread() is not threading.main_thread():
            return work()
        outcome: list[Result] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                outcome.append(work())
            except BaseException as error:  # to be raised in the main thread
                errors.append(error)

        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        while worker.is_alive():
            worker.join(_GLANCE)
            self.check()
        if errors:
            raise errors[0]
        return outcome[0]

    def leave(self) -> NoReturn:
        """End the process at once, with the work of other threads; exits as after the signal.

        Python would wait for the threads of native libraries, or crash in them.
        """
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # closed, or nobody reads
                stream.flush()
        os._exit(self.exit_code)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        wanted = self.received is None or self._repeated
        self.received, self._repeated = self.received or number, False
        if self._settled or not wanted:  # the other thread acts on a second one
            return
        if _is_import(frame):  # later: a native library may crash if half imported
            self._again()
            return
        raise KeyboardInterrupt

    def _again(self) -> None:
        """Let the other thread raise the interrupt again, since a lock may be held here."""
        with contextlib.suppress(OSError):
            os.write(self._wakeup, bytes([_AGAIN]))

    def _unraisable(self, unraisable: Any) -> None:
        """Handle an exception that nobody can catch; raise the interrupt once more if it is one."""
        if self.received is not None and issubclass(unraisable.exc_type, KeyboardInterrupt):
            self._again()
        else:
            self._next_hook(unraisable)

    def _watch(self, pipe: int) -> None:
        """Read the signals until the other end is closed; end the process at the second one."""
        own, first = 0, None
        while data := os.read(pipe, 1):
            number = data[0]
            if number == _AGAIN and not self._settled:
                time.sleep(_PAUSE)
                own, self._repeated = own + 1, True  # it also comes back through the pipe
                _signal_main(self.received or signal.SIGINT)
            elif number in _SIGNALS and own:
                own -= 1
            elif number in _SIGNALS and first is None:
                first = time.monotonic()
            elif number in _SIGNALS and time.monotonic() - (first or 0.0) > _BOUNCE:
                _end(128 + number)
        os.close(pipe)


def _signal_main(number: int) -> None:
    """Send the main thread a signal, which also ends its waiting where the system allows it."""
    main = threading.main_thread().ident
    if hasattr(signal, "pthread_kill") and main is not None:
        signal.pthread_kill(main, number)
    else:
        _thread.interrupt_main(signal.Signals(number))


def _is_import(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _end(code: int) -> None:
    """End the process at once; results are stored whole or not at all."""
    with contextlib.suppress(OSError):
        cursor = b"\x1b[?25h" if os.isatty(2) else b""  # bars hide it
        os.write(2, cursor + b"unlazy: interrupted twice; ended at once.\n")
    os._exit(code)


INTERRUPTS = Interrupts()
