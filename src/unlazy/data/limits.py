# SPDX-License-Identifier: Apache-2.0
"""What a file may ask for, and what is said of one that cannot be read."""

from pathlib import Path

from unlazy.core.errors import DataFileError
from unlazy.core.machine import available_memory

# Deflate, which zip and gzip pack with, writes at most 258 bytes for two bits.
DEFLATE_RATIO = 1032


def check_memory(needed: int, path: Path, what: str) -> None:
    """Raise unless this many bytes can be had: a few kilobytes may promise any size."""
    available = available_memory()
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


def _size(count: int) -> str:
    return f"{count / 2**30:.3g} GiB" if count >= 2**30 else f"{count / 2**20:.3g} MiB"
