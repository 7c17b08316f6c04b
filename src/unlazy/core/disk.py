# SPDX-License-Identifier: Apache-2.0
"""Files that are whole or not there at all, whenever the process is killed, with clear errors.

Everything is written under a temporary name, forced to the disk, and then renamed. A killed process
leaves a temporary name behind, which contains its process number and host; a later run clears it.
"""

import errno
import os
import platform
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from stat import S_ISDIR, S_ISFIFO, S_ISREG, S_ISSOCK

from unlazy.core.errors import StoreError
from unlazy.core.processes import is_gone

_PREFIX = ".partial-"
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ELOOP, errno.EISDIR)
_MINUTE, _DAY = 60.0, 86400.0


class NotAFileError(ValueError):
    """Where a file should be is a folder, a fifo, a link to nothing or the like."""


@contextmanager
def disk_errors(doing: str, folder: Path) -> Iterator[None]:
    """Turn an error of the operating system into one line that names the folder and the reason.

    `doing` says what could not be done, such as "write to".
    """
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"cannot {doing} the folder '{folder}': {_reason(error, folder)}."
        ) from error


def temporary_path(folder: Path) -> Path:
    """A name in `folder` that nobody else uses, with the process that made it."""
    return folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}-{_host()}"


def clear_abandoned(folder: Path) -> None:
    """Remove the temporary files and folders in `folder` whose writer is dead.

    Another run may be writing here now, so only the certain cases go: the process in the name is
    gone from this machine, or the file is a day old, longer than any write takes.
    """
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another run clears the same names
            if _is_abandoned(path):
                discard(path)


def discard(path: Path) -> None:
    """Remove a file or a folder if it is there and can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read, without waiting: a fifo would wait for its writer for ever.

    Raises:
        NotAFileError: If it is something else, which the message names.
    """
    what = obstacle(path, "file")
    if what is None:
        handle = os.open(path, os.O_RDONLY | _AT_ONCE)
        file = open(handle, "rb")  # noqa: SIM115  # the caller closes it
        kind = _kind(os.fstat(handle).st_mode)  # it may have been replaced in between
        if kind == "file":
            return file
        file.close()
        what = f"a {kind}"
    raise NotAFileError(f"{path.name} is {what}")


def _kind(mode: int) -> str:
    tests = {"file": S_ISREG, "folder": S_ISDIR, "fifo": S_ISFIFO, "socket": S_ISSOCK}
    return next((kind for kind, test in tests.items() if test(mode)), "device")


def obstacle(path: Path, wanted: str = "folder") -> str | None:
    """What is in the place of a folder or file, such as "a fifo" or "a link to nothing"."""
    try:
        kind = _kind(os.stat(path).st_mode)
    except OSError:  # a link may lead to nothing, or to itself
        return "a link to nothing" if os.path.islink(path) else None
    return None if kind == wanted else f"a {kind}"


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in `folder`: a power cut may undo a rename."""
    if os.name != "posix":  # elsewhere a folder cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_file(path: Path, data: bytes) -> None:
    """Write `path` so that a reader finds the old file or the new one, never a part of it."""
    with disk_errors("write to", path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = temporary_path(path.parent)
        try:
            write_synced(temporary, data)
            os.replace(temporary, path)
        except BaseException:
            discard(temporary)
            raise
        sync_folder(path.parent)


def make_writable(folder: Path) -> None:
    """Make a folder if need be, and raise unless it can be written."""
    with disk_errors("write to", folder):
        folder.mkdir(parents=True, exist_ok=True)
    check_writable(folder)


def check_writable(folder: Path) -> None:
    """Raise unless a small file can be made in `folder`, which must exist."""
    with disk_errors("write to", folder):
        probe = temporary_path(folder)
        try:
            write_synced(probe, bytes(4096))
        finally:
            discard(probe)


def time_at(folder: Path) -> float:
    """The time by the clock that dates the files in `folder`: on a network, another machine's."""
    probe = temporary_path(folder)
    try:
        probe.touch()
        return probe.stat().st_mtime
    finally:
        discard(probe)


def nearest_existing(path: Path) -> Path:
    """`path` itself, or the nearest folder above it that exists (or whatever is in the way)."""
    # os.path.lexists, not Path.exists: it says no, rather than raise, where we may not look.
    return next(p for p in (path.absolute(), *path.absolute().parents) if os.path.lexists(p))


def _is_abandoned(path: Path) -> bool:
    """Whether the process that made this temporary name has certainly stopped writing."""
    age = time.time() - path.lstat().st_mtime
    pid, _, host = (*path.name.removeprefix(_PREFIX).split("-", 2), "", "")[:3]
    # Two containers may share a host name and not see each other's processes: spare the young.
    ours = host == _host() and pid.isdigit() and age > _MINUTE
    return age > _DAY or (ours and is_gone(int(pid)))


def _host() -> str:
    return platform.node().replace(os.sep, "_")


def _reason(error: OSError, folder: Path) -> str:
    """Why, in words, naming what is in the way, which the system's own words do not."""
    names = (error.filename2, error.filename)  # the target of a rename first
    path = Path(next((name for name in names if isinstance(name, str)), folder))
    if path.name.startswith(_PREFIX):
        path = path.parent
    if error.errno in _IN_THE_WAY:
        for place in (*reversed(path.parents), path):
            if what := obstacle(place):
                return f"'{place}' is {what}"
        if error.errno == errno.EISDIR:
            return f"'{path}' is a folder"
    words = error.strerror or str(error) or type(error).__name__
    return words[:1].lower() + words[1:] + (f": '{path}'" if path != folder else "")
