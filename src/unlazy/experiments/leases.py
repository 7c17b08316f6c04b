# SPDX-License-Identifier: Apache-2.0
"""Leases: who computes a cell says so in the store, so that no other run does it too.

The lease on a cell is a file, made so that only one process can make it. A thread touches it while
the cell is computed. A lease has expired when its process has ended, as far as this machine can
tell, or when it was not touched for a minute. Then the next run makes a second file, with the next
number in its name: no two runs can take over the same lease, since neither removes the first.

A lease saves work; it guards nothing. Should two processes compute a cell after all, because one
of them was suspended for a minute, then both hold the same result, and the first one is kept.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from unlazy.core import disk
from unlazy.core.processes import has_ended, this_process

EXPIRES = 60.0  # seconds without a touch
_TOUCHES = 12  # in that time


class Leases:
    """The leases that this process holds in a folder; inside of `with`, they are kept alive."""

    def __init__(self, folder: Path, *, expires: float = EXPIRES) -> None:
        self.folder, self.expires = folder, expires
        self._held: dict[str, Path] = {}
        self._over = threading.Event()
        self._owner = json.dumps(this_process()).encode()

    def __enter__(self) -> "Leases":
        with disk.disk_errors("write to", self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._thread = threading.Thread(target=self._keep_alive, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for name in list(self._held):
            self.give_back(name)

    @contextmanager
    def holding(self, name: str) -> Iterator[bool]:
        """Take the lease, if nobody else has it, and give it back at the end."""
        ours = done = False
        try:
            ours = self.take(name)
            yield ours
            done = True
        finally:
            if ours:
                self.give_back(name, done=done)

    def take(self, name: str) -> bool:
        """Take the lease; False if another process, thread or run has it.

        Whoever takes it must then look whether the cell has been stored meanwhile.
        """
        for number in count():
            path = self._path(name, number)
            with disk.disk_errors("write to", self.folder):
                if self._make(path):
                    self._held[name] = path
                    return True
                if not self._has_expired(path):
                    return False
        raise AssertionError("count() has no end")

    def give_back(self, name: str, *, done: bool = False) -> None:
        """Give a lease back; with `done`, when the cell is stored, forget the expired ones too."""
        path = self._held.pop(name, None)
        if path is None:
            return
        disk.discard(path)
        # Only when the cell is stored: until then the first file shows that others came after it.
        for number in range(int(path.suffix[1:]) if done else 0):
            disk.discard(self._path(name, number))

    def keep(self, path: Path) -> None:
        """Keep a file of this process young like a lease, and remove it at the end."""
        self._held[str(path)] = path

    def owner(self, name: str) -> dict[str, Any] | None:
        """What the file of a lease that nobody has taken over says of its process, if anything."""
        for number in count():
            if not self._path(name, number + 1).exists():
                return _owner(self._path(name, number))
        raise AssertionError("count() has no end")

    def _path(self, name: str, number: int) -> Path:
        return self.folder / f"{name}.{number}"

    def _make(self, path: Path) -> bool:
        """Make the file of a lease; False if it is there already."""
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        try:
            os.write(handle, self._owner)
            return True
        except BaseException:
            disk.discard(path)
            raise
        finally:
            os.close(handle)

    def _has_expired(self, path: Path) -> bool:
        owner = _owner(path)
        if owner is None:  # it was given back just now
            return False
        if has_ended(owner):
            return True
        with suppress(FileNotFoundError):
            touched = os.stat(path).st_mtime
            # By the clock that sets the dates of files, which may be another machine's.
            return abs(time.time() - touched) > self.expires / 2 and (
                disk.time_at(self.folder) - touched > self.expires
            )
        return False

    def _keep_alive(self) -> None:
        while not self._over.wait(self.expires / _TOUCHES):
            for path in list(self._held.values()):
                with suppress(OSError):  # it was given back, or taken over while we slept
                    os.utime(path)


def _owner(path: Path) -> dict[str, Any] | None:
    """What the file of a lease says; None if it is not there, {} if it says nothing."""
    with suppress(ValueError, RecursionError):  # no JSON or no file: only its age tells
        try:
            with disk.open_regular(path) as file:
                owner = json.loads(file.read(4096))
        except FileNotFoundError:
            return None
        return owner if isinstance(owner, dict) else {}
    return {}
