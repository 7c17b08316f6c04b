# SPDX-License-Identifier: Apache-2.0
"""A model that a script or a module of the user's describes: found, called and diagnosed.

The function takes no arguments. It returns what `diagnose` takes, as a mapping of its arguments or
as a tuple `(f, params_start, params_end, x, y)`, or a `Report` that it has made itself.
"""

import contextlib
import importlib
import importlib.util
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from unlazy.core.errors import UnlazyError, UserCodeError
from unlazy.laziness.diagnosis import diagnose
from unlazy.laziness.model_report import Report
from unlazy.linalg.iterative import Progress

DEFAULT_NAME = "diagnose"
_TUPLE = "(f, params_start, params_end, x, y)"


def described(target: str) -> Any:
    """What the function that `target` names returns.

    Args:
        target: `run.py`, `run.py:function` or `package.module:function`. The folder of the script,
            or the working folder, can be imported from.

    Raises:
        UnlazyError: there is no such file, module or function.
        UserCodeError: the file or the function raised an error.
    """
    place, name = _parts(target)
    is_script = place.endswith(".py")
    folder = Path(place).resolve().parent if is_script else Path.cwd()
    with _as_program(folder, place):
        module = _script(Path(place)) if is_script else _module(place)
        function = _function(module, name, place)
        with _users(f"the function `{name}` of '{place}'"):
            return function()


def report_on(
    given: Any,
    target: str,
    *,
    seconds: float | None = None,
    memory: float | None = None,
    progress: Progress | None = None,
) -> Report:
    """The report on what the user's function returned.

    Args:
        given: what it returned.
        target: its name, for errors.
        seconds: takes the place of the function's own, as does `memory`.
        memory: bytes for gradients.
        progress: called as `progress(done, expected)`, with measurements.

    Raises:
        UnlazyError: it is not what `diagnose` takes.
        UserCodeError: the model itself raised an error.
    """
    budget = {"seconds": seconds, "memory": memory}
    limits = {name: limit for name, limit in budget.items() if limit is not None}
    if isinstance(given, Report):
        if limits:
            raise UnlazyError(
                f"`--{next(iter(limits))}` must be left out, since '{target}' returns a report "
                "that it has made itself."
            )
        return given
    arguments: dict[str, Any] = {"progress": progress, **_arguments(given, target), **limits}
    with _users(f"the report on what '{target}' returns"):
        try:
            return diagnose(**arguments)
        except (ValueError, TypeError) as error:
            if not str(error).startswith("`"):
                raise
            message = f"'{target}' returns what `diagnose` refuses: {error}"
            if error.__cause__ is None:
                raise UnlazyError(message) from error
            raise UserCodeError(message) from error.__cause__  # what the model itself raised


def _parts(target: str) -> tuple[str, str]:
    """The file or module, and the name of the function."""
    place, colon, name = target.rpartition(":")
    if not colon or name.endswith(".py") or os.sep in name:  # C:\run.py
        place, name = target, DEFAULT_NAME
    if not place or not name.isidentifier():
        raise UnlazyError(
            "`TARGET` must be a script, run.py or run.py:function, or module:function, got "
            f"'{target}'."
        )
    if not colon and not place.endswith(".py"):
        raise UnlazyError(
            f"`TARGET` must name a function of the module '{place}', such as "
            f"{place}:{DEFAULT_NAME}, or be a script whose name ends in .py."
        )
    return place, name


def _script(path: Path) -> types.ModuleType:
    """Run a script, under its own name: what `if __name__ == "__main__"` guards does not run."""
    if not path.is_file():
        raise UnlazyError(f"`TARGET` must be a file that exists, got '{path}'.")
    name = path.stem if path.stem not in sys.modules else f"unlazy_script_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # the name ends in .py
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with _users(f"the script '{path}'"):
        spec.loader.exec_module(module)
    return module


def _module(name: str) -> types.ModuleType:
    importlib.invalidate_caches()
    with _users(f"the module '{name}'"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # it is there, and imports something else that is not
            raise UnlazyError(
                f"`TARGET` must name a module that can be imported from '{Path.cwd()}', got "
                f"'{name}'."
            ) from error


def _function(module: types.ModuleType, name: str, place: str) -> Callable[[], Any]:
    function = getattr(module, name, None)
    if function is diagnose:
        function = None  # imported from here: the user's own has another name, or is missing
    if function is None:
        own = [key for key, value in vars(module).items() if _is_own(value, module)]
        there = f"it has {', '.join(own)}" if own else "it has no function of its own"
        raise UnlazyError(f"'{place}' must have a function `{name}`, but {there}.")
    if not callable(function):
        kind = type(function).__name__
        raise UnlazyError(f"`{name}` of '{place}' must be a function, got {kind}.")
    _check_takes_nothing(function, name, place)
    return function


def _is_own(value: Any, module: types.ModuleType) -> bool:
    return inspect.isfunction(value) and value.__module__ == module.__name__


def _check_takes_nothing(function: Any, name: str, place: str) -> None:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function that is not written in Python
        return
    try:
        signature.bind()
    except TypeError as error:
        raise UnlazyError(
            f"`{name}` of '{place}' must take no arguments, got {name}{signature}."
        ) from error


def _arguments(given: Any, target: str) -> dict[str, Any]:
    """What the user's function returned, as arguments by name."""
    names = list(inspect.signature(diagnose).parameters)
    if isinstance(given, tuple) and len(given) in (4, 5):
        return dict(zip(names, given, strict=False))
    if not isinstance(given, Mapping):
        got = f"a tuple of {len(given)}" if isinstance(given, tuple) else type(given).__name__
        raise UnlazyError(
            f"'{target}' must return a mapping of the arguments of `diagnose`, a tuple {_TUPLE} or "
            f"a report, got {got}."
        )
    missing = [name for name in names[:4] if name not in given]
    unknown = [str(name) for name in given if name not in names]
    if missing or unknown:
        got = f"`{unknown[0]}`" if unknown else f"none named `{missing[0]}`"
        raise UnlazyError(
            f"'{target}' must return arguments of `diagnose`, {', '.join(names)}, got {got}."
        )
    return dict(given)


@contextlib.contextmanager
def _as_program(folder: Path, place: str) -> Iterator[None]:
    """Let the user's code import what lies beside it, and see no arguments but its own name."""
    path, argv = list(sys.path), sys.argv
    sys.path.insert(0, str(folder))
    sys.argv = [place]
    try:
        yield
    finally:
        sys.path[:], sys.argv = path, argv


@contextlib.contextmanager
def _users(what: str) -> Iterator[None]:
    """Report an error of the user's code by what it is, with the user's part of its traceback."""
    try:
        yield
    except UnlazyError:
        raise
    except SystemExit as error:
        raise UserCodeError(f"{what} ended the program with exit({error.code!r}).") from error
    except Exception as error:
        error.__traceback__ = _from_user(error.__traceback__)
        raise UserCodeError(f"{what} failed: {type(error).__name__}: {error}") from error


def _from_user(trace: types.TracebackType | None) -> types.TracebackType | None:
    """The traceback from the first line on that is neither of this file nor of the import."""
    ours = (__file__, "<frozen importlib")
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(ours):
        trace = trace.tb_next
    return trace
