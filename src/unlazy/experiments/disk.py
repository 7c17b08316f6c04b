# SPDX-License-Identifier: Apache-2.0
"""Writing that is whole or not there at all, whenever the process is killed, with clear errors.

Everything is first written under a temporary name that tells who writes it, forced to the disk, and
then renamed. What a killed process leaves behind is a temporary name, which a later run clears.
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

_PREFIX = ".partial-"
_AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_IN_THE_WAY = (errno.ENOTDIR, errno.EEXIST, errno.ENOENT, errno.ELOOP, errno.EISDIR)
_MINUTE, _DAY = 60.0, 86400.0


class NotAFileError(ValueError):
    """Where a file should be is a folder, a fifo, a link to nothing or the like."""


@contextmanager
def disk_errors(doing: str, folder: Path) -> Iterator[None]:
    """Turn an error of the operating system into one line that names the folder and the reason.

    Args:
        doing: What could not be done, such as "write to".
        folder: The folder as the user gave it.
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
    """A name in `folder` that nobody else uses and that tells which process made it."""
    host = platform.node().replace(os.sep, "_")
    return folder / f"{_PREFIX}{os.getpid()}-{secrets.token_hex(4)}-{host}"


def clear_abandoned(folder: Path) -> None:
    """Remove the temporary files and folders in `folder` whose writer is dead.

    Another run may be writing here at this moment, so only what is certain goes: the process that
    the name tells is gone from this machine, or the file is a day old and no write takes that long.
    """
    for path in folder.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another run clears the same names
            if _is_abandoned(path):
                discard(path)


def discard(path: Path) -> None:
    """Remove a file or a folder if it is there; what can not be removed stays."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def open_regular(path: Path) -> BufferedReader:
    """Open a file to read.

    Without waiting: whoever opens a fifo would wait for its writer for ever.

    Raises:
        NotAFileError: If it is something else, which the message names.
    """
    what = obstacle(path)
    if what == "a link to nothing":
        raise NotAFileError(f"{path.name} is {what}")
    kind = kind_of(os.stat(path).st_mode)
    if kind == "file":
        handle = os.open(path, os.O_RDONLY | _AT_ONCE)
        file = open(handle, "rb")  # noqa: SIM115  # the caller closes it
        # Looked at again: it may have been replaced in between.
        kind = kind_of(os.fstat(handle).st_mode)
        if kind == "file":
            return file
        file.close()
    raise NotAFileError(f"{path.name} is a {kind}")


def kind_of(mode: int) -> str:
    """What a mode is of, in a word: "file", "folder", "fifo", "socket" or "device"."""
    tests = {"file": S_ISREG, "folder": S_ISDIR, "fifo": S_ISFIFO, "socket": S_ISSOCK}
    return next((kind for kind, test in tests.items() if test(mode)), "device")


def obstacle(path: Path) -> str | None:
    """What is where a folder should be: "a file", "a fifo", "a link to nothing"; else None."""
    try:
        kind = kind_of(os.stat(path).st_mode)
    except OSError:  # a link may lead to nothing, or to itself
        return "a link to nothing" if os.path.islink(path) else None
    return None if kind == "folder" else f"a {kind}"


def write_synced(path: Path, data: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in `folder`: a rename alone may be lost with the power."""
    if os.name != "posix":  # elsewhere a folder can not be opened
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
    """Make a folder if need be; raise unless it can be written."""
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


def nearest_existing(path: Path) -> Path:
    """`path` itself, or the nearest folder above it that exists (or whatever is in the way)."""
    # os.path.lexists, not Path.exists: it says no, rather than raise, where we may not look.
    return next(p for p in (path.absolute(), *path.absolute().parents) if os.path.lexists(p))


def _is_abandoned(path: Path) -> bool:
    """Whether the process that made this temporary name is certainly no longer at it."""
    age = time.time() - path.lstat().st_mtime
    if age > _DAY:
        return True
    parts = path.name.removeprefix(_PREFIX).split("-", 2)
    if len(parts) != 3:  # not a name of ours: leave it for a day
        return False
    pid, _, host = parts
    # Two containers may share a host name and not see each other's processes: spare the young.
    here = host == platform.node().replace(os.sep, "_")
    return here and age > _MINUTE and pid.isdigit() and not _is_alive(int(pid))


def _is_alive(pid: int) -> bool:
    """Whether a process of that number runs on this machine; yes when that is not known."""
    if os.name != "posix":  # elsewhere os.kill(pid, 0) would end the process
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _reason(error: OSError, folder: Path) -> str:
    """Why, in words: what is in the way is named, since the system's own words do not tell."""
    names = (error.filename2, error.filename)  # of a rename, where to comes first
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
