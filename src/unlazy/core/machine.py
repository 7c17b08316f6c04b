# SPDX-License-Identifier: Apache-2.0
"""What the machine offers: memory, the default budget of it, the processor, a folder on disk."""

import contextlib
import os
from collections.abc import Iterator
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


def available_memory() -> int:
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


def free_memory() -> int:
    """The budget in bytes for work that begins now: half of what is free, more on a device."""
    import jax  # not above: a list of figures does without it

    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        free = statistics["bytes_limit"] - statistics.get("bytes_in_use", 0)
        return max(int(0.8 * free), 2**28)
    return max(available_memory() // 2, 2**28)


def default_memory() -> int:
    """The budget in bytes when none is given: half the machine, or four fifths of a device."""
    import jax  # not above: a list of figures does without it

    statistics = jax.local_devices()[0].memory_stats()
    if statistics and "bytes_limit" in statistics:
        return int(0.8 * statistics["bytes_limit"])
    return physical_memory() // 2


def cores() -> int:
    """Processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # Linux alone has it
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Compute on the processor: an accelerator's compiler takes longer than small things do.

    Samples drawn there are the same whatever device the network is trained on, if JAX has both.
    """
    import jax  # not above: a list of figures does without it

    with contextlib.ExitStack() as stack:
        # Where JAX was told of accelerators alone there is no such device.
        with contextlib.suppress(RuntimeError):
            stack.enter_context(jax.default_device(jax.local_devices(backend="cpu")[0]))
        yield
