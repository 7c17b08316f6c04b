# SPDX-License-Identifier: Apache-2.0
"""What the machine gives: a folder to keep things in, and memory."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder that `UNLAZY_CACHE` names, else the system's cache folder for unlazy."""
    if override := os.environ.get("UNLAZY_CACHE"):
        return Path(override).expanduser()
    import pooch

    return Path(pooch.os_cache("unlazy"))


def physical_memory() -> int:
    """Bytes of the machine's memory, or of the container's where that has less."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    container = Path("/sys/fs/cgroup/memory.max")
    if container.is_file() and (text := container.read_text().strip()).isdigit():
        limit = min(limit, int(text))
    return limit
