# SPDX-License-Identifier: Apache-2.0
"""What the library raises and warns with, beyond the built-in kinds."""


class UnlazyError(Exception):
    """An error that the command line reports as one line, with the exit code of its kind."""

    exit_code = 2


class OutputError(UnlazyError):
    """Standard output can not be written: it is closed, or its device is full."""

    exit_code = 74  # EX_IOERR of sysexits.h


class BrokenPipeOutputError(OutputError):
    """Who reads standard output has gone, as `head` does."""

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
    """A name that nothing is registered under; the message suggests the nearest."""


class UnlazyWarning(UserWarning):
    """A result that is correct but probably not what was wanted."""
