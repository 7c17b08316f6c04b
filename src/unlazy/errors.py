# SPDX-License-Identifier: Apache-2.0
"""What the library raises and warns with, beyond the built-in kinds."""


class UnlazyError(Exception):
    """An error that the command line reports as one line, with exit code 2."""


class DataFileError(UnlazyError, ValueError):
    """A data file is missing, truncated, corrupt or not what its name says."""


class StoreError(UnlazyError, OSError):
    """A result could not be written to or read from the output folder."""


class UnknownNameError(UnlazyError, ValueError):
    """A name that nothing is registered under; the message suggests the nearest."""


class UnlazyWarning(UserWarning):
    """A result that is correct but probably not what was wanted."""
