# SPDX-License-Identifier: Apache-2.0
"""Which process this is, so that others on the same machine can tell whether it still runs."""

import contextlib
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PROC = Path("/proc")  # Linux alone has what is read there


def this_process() -> dict[str, Any]:
    """What `has_ended` needs of this process, ready for JSON."""
    _, started = _state(os.getpid())
    return {"machine": _machine(), "pid": os.getpid(), "started": started}


def has_ended(process: Mapping[str, Any]) -> bool:
    """Whether it is known that this process has ended; those of other machines are not known."""
    pid = process.get("pid")
    if process.get("machine") != _machine() or type(pid) is not int or pid <= 0:
        return False
    if is_gone(pid):
        return True
    state, started = _state(pid)
    if state is None or process.get("started") is None:
        return False
    # Z and X are processes that nobody has waited for; the number may be another one's by now.
    return state in ("Z", "X") or started != process["started"]


def is_gone(pid: int) -> bool:
    """Whether it is known that no process of this number runs here."""
    if os.name != "posix":  # elsewhere os.kill(pid, 0) would end the process
        return False
    try:
        os.kill(pid, 0)
    except (OSError, OverflowError) as error:
        return isinstance(error, ProcessLookupError)
    return False


def _machine() -> str:
    """A name for what process numbers are numbers of: a machine since its start, or a container."""
    with contextlib.suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"
    return platform.node()


def _state(pid: int) -> tuple[str | None, str | None]:
    """The letter of a process's state and when it was started; None where nobody tells."""
    with contextlib.suppress(OSError, IndexError):
        # The second field is the command in parentheses, which may hold anything.
        fields = (_PROC / str(pid) / "stat").read_text(errors="replace").rpartition(")")[2].split()
        return fields[0], fields[19]
    return None, None
