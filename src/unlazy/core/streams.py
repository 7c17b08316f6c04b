# SPDX-License-Identifier: Apache-2.0
"""Standard output and standard error of the command line, which may be closed, full or narrow.

Standard output has the result: if it cannot be written, that is an error of its own. Standard error
has what accompanies it, and failures to write it are ignored. Neither fails for a character that
the terminal lacks, which is written as Python escapes it, such as `\u03bb`.
"""

import contextlib
import errno
import io
import json
import os
import select
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from unlazy.core.errors import BrokenPipeOutputError, OutputError


@contextlib.contextmanager
def guarded() -> Iterator[None]:
    """Make `sys.stdout` and `sys.stderr` raise an `OutputError` or nothing inside the scope.

    Streams without a system file, such as a test's or a notebook's, are left as they are.
    """
    before = sys.stdout, sys.stderr
    sys.stdout = _guard(sys.stdout, 1, "standard output", needed=True)
    sys.stderr = _guard(sys.stderr, 2, "standard error", needed=False)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OutputError):
                stream.flush()
        sys.stdout, sys.stderr = before


def check_output() -> None:
    """Raise if standard output was closed from the start; call it before computing anything."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    if isinstance(raw, _Guarded) and raw.closed_from_start:
        raise OutputError("standard output is closed. Send it to a file or to /dev/null.")


def print_json(content: Mapping[str, Any]) -> None:
    """Write the result as one JSON object."""
    sys.stdout.write(json.dumps(content, indent=2, allow_nan=False) + "\n")


def fail(message: str, *, as_json: bool, code: int = 2) -> int:
    """Say what is wrong in one line on standard error, and as JSON if that was asked for."""
    line = " ".join(message.split())
    with contextlib.suppress(OutputError):  # the exit code says more
        sys.stderr.write(f"unlazy: {line}\n")
        sys.stderr.flush()
        if as_json:
            print_json({"error": line})
            sys.stdout.flush()
    return code


def _guard(stream: Any, number: int, name: str, *, needed: bool) -> Any:
    """The stream on top of a file that handles errors, or the stream itself if it has no file."""
    if stream is None:
        _occupy(number)
        raw = _Guarded(number, name, needed=needed, closed_from_start=True)
        return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", "backslashreplace")
    try:
        number = stream.fileno()
        stream.flush()
    except (OSError, ValueError):
        return stream
    raw = _Guarded(number, name, needed=needed)
    return io.TextIOWrapper(
        io.BufferedWriter(raw),
        stream.encoding,
        "backslashreplace",
        line_buffering=getattr(stream, "line_buffering", False),
        write_through=getattr(stream, "write_through", False),
    )


def _occupy(number: int) -> None:
    """Open a closed standard stream, or the next file, a result's, would get its number."""
    try:
        os.fstat(number)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null != number:
            os.dup2(null, number)
            os.close(null)


class _Guarded(io.FileIO):
    """A file that reports its first error, if it is `needed`, and then accepts everything."""

    def __init__(
        self, number: int, name: str, *, needed: bool, closed_from_start: bool = False
    ) -> None:
        super().__init__(number, "w", closefd=False)
        self.what, self.needed, self.closed_from_start = name, needed, closed_from_start
        self.failed = closed_from_start

    def write(self, data: Any, /) -> int:
        """Write some of the data, waiting while the file is not ready; raise at most once."""
        while not self.failed:
            try:
                written = super().write(data)
            except OSError as error:
                self.failed = True  # the rest of the buffers is discarded
                self._raise(error)
            else:
                if written is not None:
                    return written
                select.select([], [self.fileno()], [])
        return memoryview(data).nbytes

    def _raise(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:
            raise BrokenPipeOutputError(f"the reader of {self.what} went away.") from None
        if self.needed:
            reason = error.strerror or type(error).__name__
            raise OutputError(
                f"cannot write to {self.what}: {reason[:1].lower()}{reason[1:]}."
            ) from None
