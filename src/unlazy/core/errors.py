# SPDX-License-Identifier: Apache-2.0
"""The errors and the warning of the library, beyond the built-in ones."""

import inspect
import types

_NOT_USERS = ("unlazy", "equinox", "jax", "jaxtyping", "beartype", "contextlib", "functools")


class UnlazyError(Exception):
    """An error that the command line reports as one line, with the exit code of its kind."""

    exit_code = 2


class OutputError(UnlazyError):
    """Standard output cannot be written: it is closed, or its device is full."""

    exit_code = 74  # EX_IOERR of sysexits.h


class BrokenPipeOutputError(OutputError):
    """The reader of standard output has gone away, as `head` does."""

    exit_code = 141  # 128 and SIGPIPE


class WorkingFolderError(UnlazyError):
    """The working folder has been deleted."""

    exit_code = 66  # EX_NOINPUT of sysexits.h


class InterruptError(UnlazyError):
    """A signal ended the run; the exit code is 128 and its number."""

    exit_code = 130


class DataFileError(UnlazyError, ValueError):
    """A data file is missing, truncated, corrupt or not what its name says."""


class StoreError(UnlazyError, OSError):
    """A result could not be written to or read from the output folder."""


class UnknownNameError(UnlazyError, ValueError):
    """Nothing is registered under a name; the message suggests the nearest."""


class ArgumentsError(UnlazyError, ValueError):
    """Arguments that exclude one another, or one that says where something is and cannot."""


class UserCodeError(UnlazyError):
    """Code of the user's own failed; the cause has its traceback, from the user's first line on."""


class UnlazyWarning(UserWarning):
    """A result that is correct but probably not what was wanted."""


def user_level() -> int:
    """The `stacklevel` at which a warning points to the user's line that led to it."""
    level, frame = 1, inspect.currentframe()
    while frame and _module(frame).startswith((__name__, "jaxtyping", "beartype")):
        frame = frame.f_back  # a shape checker around this function; level 1 is what called it
    while frame and _module(frame).split(".")[0] in _NOT_USERS:
        level, frame = level + 1, frame.f_back
    return level


def _module(frame: types.FrameType) -> str:
    return frame.f_globals.get("__name__", "")
