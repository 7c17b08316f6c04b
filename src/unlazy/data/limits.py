# SPDX-License-Identifier: Apache-2.0
"""What a file may ask for, and what is said of one that can not be read."""

import contextlib
from pathlib import Path

from unlazy.core.errors import DataFileError
from unlazy.core.machine import physical_memory

# Deflate, which zip and gzip pack with, writes at most 258 bytes for two bits.
DEFLATE_RATIO = 1032


def check_memory(needed: int, path: Path, what: str) -> None:
    """Raise unless this many bytes can be had: a few kilobytes may promise any size."""
    available = _available_memory()
    if needed > available:
        raise DataFileError(
            f"`{path}` must fit in memory: {what} takes {_size(needed)}, and {_size(available)} "
            "can be had. Keep fewer rows in the file, or look whether it is damaged."
        )


def in_short(error: BaseException | str, most: int = 200) -> str:
    """What an error says, on one line, without the full stop; its kind if it says nothing."""
    if isinstance(error, MemoryError):
        return "it asks for more memory than can be had"
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return text if len(text) <= most else f"{text[:most]}..."


def _available_memory() -> int:
    """Bytes that can be had without swapping, as far as the system tells."""
    limits = [physical_memory()]
    statistics = Path("/proc/meminfo")  # Linux alone has it
    if statistics.is_file():
        lines = dict(line.split(":", 1) for line in statistics.read_text().splitlines())
        if "MemAvailable" in lines:
            limits.append(1024 * int(lines["MemAvailable"].split()[0]))
    with contextlib.suppress(ImportError, OSError):  # Windows has neither
        import resource

        allowed, _ = resource.getrlimit(resource.RLIMIT_AS)
        if allowed != resource.RLIM_INFINITY:
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            limits.append(max(0, allowed - pages * resource.getpagesize()))
    return min(limits)


def _size(count: int) -> str:
    return f"{count / 2**30:.3g} GiB" if count >= 2**30 else f"{count / 2**20:.3g} MiB"
