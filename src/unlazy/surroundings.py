# SPDX-License-Identifier: Apache-2.0
"""What surrounds a command: interrupts, the terminal, kept programs, files, errors in one line.

Heavy modules are imported where they are used, so that `--help` is quick.
"""

import contextlib
import functools
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlazy import options
from unlazy.core import streams
from unlazy.core.errors import (
    BrokenPipeOutputError,
    InterruptError,
    OutputError,
    UnlazyError,
    UserCodeError,
)
from unlazy.core.interrupts import INTERRUPTS

if TYPE_CHECKING:
    import rich.console

    from unlazy.experiments import Reporter
    from unlazy.linalg.iterative import Progress


def ends_promptly(command: Callable[..., int]) -> Callable[..., int]:
    """The command on a thread of its own: an interrupt then ends it within a second."""

    @functools.wraps(command)
    def run(**arguments: Any) -> int:
        try:
            return INTERRUPTS.aside(lambda: command(**arguments))
        except KeyboardInterrupt:
            INTERRUPTS.settle()
            if sys.stderr.isatty():
                sys.stderr.write("\r\x1b[2K\x1b[?25h")  # the bar, and the cursor that it hid
            streams.fail("interrupted.", as_json=bool(arguments.get("as_json")))
            INTERRUPTS.leave()

    return run


@contextlib.contextmanager
def interruptible(advice: str = "") -> Iterator[None]:
    """Report an interrupt as an error, even if a library swallowed it or raised another error."""
    try:
        yield
        INTERRUPTS.check()
    except InterruptError:
        raise
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) and INTERRUPTS.received is None:
            raise
        interrupt = InterruptError(f"interrupted; {advice}" if advice else "interrupted.")
        interrupt.exit_code = INTERRUPTS.exit_code
        raise interrupt from error


def reporter(until_end: contextlib.ExitStack) -> "Callable[[], Reporter]":
    """Start keeping compiled programs; returns a function that makes a reporter per figure."""
    from unlazy.experiments import PassingReporter, reporter_for

    keep = keep_programs(until_end)
    return lambda: PassingReporter(
        reporter_for(sys.stderr), check=INTERRUPTS.check, after_cell=keep
    )


def keep_programs(until_end: contextlib.ExitStack) -> "Callable[[], None]":
    """Keep compiled programs from here on; returns a function that keeps those made up to now."""
    from unlazy.experiments import kept_programs, reporter_for

    return until_end.enter_context(kept_programs(lambda text: reporter_for(sys.stderr).note(text)))


def check_files(html: Path | None, plot: Path | None, out: Path | None = None) -> None:
    """Raise before anything is computed if a result could not be written."""
    from unlazy.core import disk

    if plot is not None and plot.suffix.lower() not in (".png", ".svg"):
        raise UnlazyError(f"`--plot` must end in .png or .svg, got '{plot}'.")
    for option, path in {"--html": html, "--plot": plot}.items():
        if path is not None and (path == Path() or path.is_dir()):
            raise UnlazyError(f"`{option}` must name a file, got the folder '{path}'.")
    folders = [path.parent for path in (html, plot) if path is not None]
    for folder in (*folders, *([out] if out is not None else [])):
        # Not `disk.nearest_existing`: an error should show the path as it was typed.
        disk.check_writable(next(p for p in (folder, *folder.parents) if os.path.lexists(p)))


def bar(name: str) -> "contextlib.AbstractContextManager[Progress]":
    """A bar on a terminal, nothing elsewhere; the work can be interrupted wherever it reports."""
    from unlazy.experiments.bars import bar_on

    return bar_on(sys.stderr, name, check=INTERRUPTS.check)


def aside(as_json: bool) -> contextlib.AbstractContextManager[Any]:
    """Send what libraries print to standard error if standard output is JSON."""
    return contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()


def fail_with(error: Exception, *, as_json: bool) -> int:
    """Report an error in one line, with a traceback only if nobody foresaw it."""
    if isinstance(error, options.UsageError):
        return streams.fail(options.mistake(error), as_json=as_json)
    from unlazy.experiments import CellError

    # These are wrappers that say what failed; the cause tells whether it was foreseen.
    cause = error.__cause__ if isinstance(error, CellError | UserCodeError) else error
    if isinstance(cause, BrokenPipeOutputError):
        return cause.exit_code  # the reader has what it wanted, as `head` does
    if isinstance(cause, UnlazyError):
        return streams.fail(str(error), as_json=as_json, code=cause.exit_code)
    with contextlib.suppress(OutputError):
        traceback.print_exception(cause, file=sys.stderr)
    kind = "" if isinstance(error, UnlazyError) else f"{type(error).__name__}: "
    return streams.fail(f"{kind}{error}", as_json=as_json)


def console() -> "rich.console.Console":
    """Standard output for people, wide if it is not a terminal so that tables do not wrap."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120)
