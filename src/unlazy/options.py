# SPDX-License-Identifier: Apache-2.0
"""The options of the command line: their help, their values in a shell, their names in errors.

Nothing here imports JAX: a shell that completes a word waits for the answer.
"""

import functools
import inspect
import os
import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from unlazy.core.errors import UnlazyError, UserCodeError

# Every mistake on the command line is of this kind, whether typer brings its own click or not.
UsageError = typer.BadParameter.__bases__[0]
_WRONG_VALUE = re.compile(
    r"Invalid value for '(?P<option>[^']+)'(?: \(env var: '\w+'\))?: "
    r"(?:Input should|must) be (?P<expected>.*?)"
    r"(?:, unable to parse.*)?"
)


def _without_types(params: list[Any]) -> list[Any]:
    """The parameters; help shows neither the type of a flag nor a type beside `NAME`."""
    for param in params:
        if getattr(param, "is_flag", False) and param.metavar is None:
            param.metavar = ""
        elif param.param_type_name == "argument":
            # Help has a column for the type, whatever the metavar is.
            param.display_type_rich = lambda ctx: ""  # noqa: ARG005
    return params


class Command(TyperCommand):
    """A command whose help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, with those that typer adds, such as `--help`."""
        return _without_types(super().get_params(ctx))


class Group(TyperGroup):
    """The commands together; help shows flags without a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All parameters, with those that typer adds, such as `--install-completion`."""
        return _without_types(super().get_params(ctx))


def complete_figure(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of figures that begin so, without those given already."""
    from unlazy import papers

    given = ctx.params.get("names") or ()
    return [name for name in papers.names() if name.startswith(incomplete) and name not in given]


def complete_preset(ctx: typer.Context, incomplete: str) -> list[str]:
    """Names of presets that begin so, and that all the figures given have."""
    from unlazy.papers import catalogue

    # Since the option lacks its value, the names are among the words that were not understood.
    words = [*(ctx.params.get("names") or ()), *ctx.args]
    given = [name for name in words if name in catalogue.names()]
    known = [catalogue.preset_names(name) for name in given or catalogue.names()]
    every = dict.fromkeys(preset for presets in known for preset in presets)
    shared = [preset for preset in every if not given or all(preset in some for some in known)]
    return [preset for preset in shared if preset.startswith(incomplete)]


def complete_from(*values: str) -> Callable[[str], list[str]]:
    """A completion from a few words."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values if value.startswith(incomplete)]

    return complete


def complete_file(*endings: str) -> Callable[[str], list[str]]:
    """A completion to files with these endings.

    It has no answer, and so leaves the word to the shell, where a folder could be meant, which the
    shell follows by a slash and no space, or where a name must be quoted.
    """

    def complete(incomplete: str) -> list[str]:
        folder, start = os.path.split(incomplete)
        try:
            entries = [entry for entry in os.scandir(folder or ".") if entry.name.startswith(start)]
        except OSError:
            return []
        if any(entry.is_dir() or shlex.quote(entry.name) != entry.name for entry in entries):
            return []
        return sorted(os.path.join(folder, e.name) for e in entries if e.name.endswith(endings))

    return complete


def one_of(*values: str) -> Callable[[str], str]:
    """A check of the value of an option, which must be one of a few words."""

    def check(value: str) -> str:
        if value not in values:
            raise typer.BadParameter(f"must be one of {', '.join(values)}, got {value!r}.")
        return value

    return check


def folder(text: str | Path) -> Path:
    """The value of an option that names a folder. An empty name would be the working folder."""
    if not str(text):
        raise typer.BadParameter("must be the name of a folder, got an empty one.")
    return Path(text)


def positive(value: float | None) -> float | None:
    """The value of an option, which must be a positive number."""
    if value is not None and not 0 < value < float("inf"):
        raise typer.BadParameter(f"must be a positive number, got {value:g}.")
    return value


def named(others: Mapping[str, str]) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorate a command: errors of the library about its arguments then name the options.

    An argument `jobs` is the option `--jobs`; `others` has those for which that is not so.
    """

    def decorate(command: Callable[..., int]) -> Callable[..., int]:
        options = {name: f"--{name}" for name in inspect.signature(command).parameters}

        @functools.wraps(command)
        def run(**arguments: Any) -> int:
            try:
                return command(**arguments)
            except UnlazyError as error:
                if not _is_from_inside(error):
                    error.args = (in_options(str(error), {**options, **others}),)
                raise

        return run

    return decorate


def in_options(message: str, options: Mapping[str, str]) -> str:
    """The message of an error with the options in place of the arguments that it names.

    >>> in_options("`jobs` must be left out, got jobs=2.", {"jobs": "--jobs"})
    '`--jobs` must be left out, got --jobs=2.'
    """
    for name, option in options.items():
        message = message.replace(f"`{name}`", f"`{option}`")
        text, equals = (name, "") if "=" in name else (f"{name}=", "=")
        given = f"{option}{equals}" if option.startswith("-") else ""
        # Neither at the end of a longer name nor inside of a quoted one.
        message = re.sub(rf"(?<![\w.'/-]){re.escape(text)}", given, message)
    return message


def mistake(error: Any) -> str:
    """What is wrong with a command line, in a sentence that names the option."""
    message = error.format_message()
    if found := _WRONG_VALUE.fullmatch(message):
        message = f"`{found['option']}` must be {found['expected']}"
    end = "" if message.endswith(("?", ".")) else "."
    path = getattr(error.ctx, "command_path", None) or "unlazy"
    return f"{message}{end} See {path} --help."


def _is_from_inside(error: UnlazyError) -> bool:
    """Whether code of a figure or of the user's own raised it, whose names are not options."""
    from unlazy.experiments import CellError

    return isinstance(error, CellError | UserCodeError)
