# SPDX-License-Identifier: Apache-2.0
"""Compiled programs kept from run to run, so that a resumed run need not compile again.

JAX runs whatever it finds under a program's name: the file of another program changes results, and
half a file is warned of in every run. So JAX reads and writes a folder of this process alone. It is
filled with the programs kept in the user's cache folder, as far as their checksums, of name and
content, are right; the others are dropped. What JAX adds is kept with such a checksum.
"""

import contextlib
import hashlib
import importlib
import os
import platform
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

from unlazy.core import disk
from unlazy.core.entries import entry
from unlazy.core.errors import StoreError
from unlazy.core.machine import cache_folder

_ENDING = "-cache"  # of the files that JAX makes
_DIGEST = 32  # bytes of a checksum
_MOST = 2**29  # bytes kept; beyond, the oldest go
_ZSTD = b"\x28\xb5\x2f\xfd"  # what JAX compresses with where Python has it; else zlib


@entry
@contextlib.contextmanager
def kept_programs(note: Callable[[str], None]) -> Iterator[Callable[[], None]]:
    """Inside, programs compiled by JAX are kept in the user's cache folder.

    The folder is `compiled` in the one that `UNLAZY_CACHE` names, else in the system's for unlazy.
    JAX's settings are left alone in a program that has imported JAX already, and where
    `JAX_COMPILATION_CACHE_DIR` is set. If nothing can be kept, `note` is told why.

    Yields:
        A function that keeps what was compiled up to now, in case the run is killed.
    """
    if "jax" in sys.modules or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        yield lambda: None
        return
    try:
        folder = _own_folder(cache_folder().absolute() / "compiled")
        programs = Programs(folder / _machine())
    except OSError as error:
        note(f"compiled programs are not kept: {error}")
        yield lambda: None
        return
    try:
        _use(programs.session)
        yield programs.keep
    finally:
        programs.keep()
        disk.discard(programs.session)
        _bound(folder)


class Programs:
    """The kept programs in `folder`, and a copy for JAX in `session`."""

    def __init__(self, folder: Path) -> None:
        with disk.disk_errors("write to", folder):
            folder.mkdir(mode=0o700, exist_ok=True)
            disk.clear_abandoned(folder)
            self.folder, self.session = folder, disk.temporary_path(folder)
            self.session.mkdir(mode=0o700)
            self.known = {path.name for path in _entries(folder) if self._load(path)}

    def _load(self, path: Path) -> bool:
        """Hand a program to JAX if its checksum is right; else drop it."""
        with contextlib.suppress(OSError, ValueError):
            with disk.open_regular(path) as file:
                content = file.read()
            if content[:_DIGEST] == _checksum(path.name, content[_DIGEST:]):
                (self.session / path.name).write_bytes(content[_DIGEST:])
                return True
        disk.discard(path)
        return False

    def keep(self) -> None:
        """Keep what JAX has added; a failure costs a compilation later, and is no error."""
        with contextlib.suppress(OSError):
            os.utime(self.session)  # young, so that no other run takes it for abandoned
            for path in _entries(self.session):
                if path.name not in self.known:
                    self._keep(path)

    def _keep(self, path: Path) -> None:
        data = path.read_bytes()
        if not _is_whole(data):  # another thread is writing it, or the disk was full
            return
        temporary = disk.temporary_path(self.folder)
        try:
            # Not forced to the disk: what the power takes away, the checksum will find.
            temporary.write_bytes(_checksum(path.name, data) + data)
            os.replace(temporary, self.folder / path.name)
        finally:
            disk.discard(temporary)
        self.known.add(path.name)


def _use(session: Path) -> None:
    import jax

    jax.config.update("jax_compilation_cache_dir", str(session))
    # All of them: hundreds of small ones take longer than the few large ones.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    # A GPU's tuning results have no checksum, and their folder would be part of every name.
    with contextlib.suppress(AttributeError):  # a setting that not every version has
        jax.config.update("jax_persistent_cache_enable_xla_caches", "none")


def _entries(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.endswith(_ENDING)]


def _checksum(name: str, data: bytes) -> bytes:
    return hashlib.sha256(name.encode() + b"\0" + data).digest()


def _is_whole(data: bytes) -> bool:
    """Whether these are all the bytes of a compressed program; both formats mark their end."""
    if data.startswith(_ZSTD):
        for name in ("compression.zstd", "zstandard"):
            with contextlib.suppress(Exception):  # each has its own kinds
                return bool(importlib.import_module(name).decompress(data))
        return False
    reader = zlib.decompressobj()
    try:
        reader.decompress(data)
    except zlib.error:
        return False
    return reader.eof and not reader.unused_data


def _bound(folder: Path) -> None:
    """Drop the oldest programs, of other machines and versions too, if there are too many."""
    with contextlib.suppress(OSError):
        found = [(path.stat(), path) for path in folder.glob(f"*/*{_ENDING}")]
        total = sum(status.st_size for status, _ in found)
        for status, path in sorted(found, key=lambda pair: pair[0].st_mtime):
            if total <= _MOST:
                return
            disk.discard(path)
            total -= status.st_size


def _own_folder(folder: Path) -> Path:
    """The folder, made if need be; raise if another user can write to it: its files are run."""
    with disk.disk_errors("write to", folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.stat()
    if os.name == "posix" and (status.st_uid != os.geteuid() or status.st_mode & 0o022):
        raise StoreError(f"other users can write to the folder '{folder}'.")
    return folder


def _machine() -> str:
    """A name for this processor and version of JAX: machines may share a home folder."""
    parts = [version("jax"), version("jaxlib"), platform.machine(), platform.processor()]
    with contextlib.suppress(OSError):
        text = Path("/proc/cpuinfo").read_text()
        parts += re.findall(r"^(?:model name|flags|Features)\s*:.*$", text, re.MULTILINE)[:2]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
