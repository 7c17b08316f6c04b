# SPDX-License-Identifier: Apache-2.0
"""Public entries: a call that fails for a wrong argument says which argument, and what it expects.

The checks at the entries explain the mistakes that they know. `entry` handles all others, such as a
string in place of an array: when a call fails with an error that names none of its arguments, it
compares them with their annotations and names the first that does not fit. A call that succeeds
costs nothing and is never refused.
"""

import contextlib
import dataclasses
import functools
import inspect
import os
import re
import sysconfig
import traceback
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from unlazy.core.errors import UnlazyError

F = TypeVar("F", bound=Callable[..., Any])

_OF_VALUES = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError)
# A warning turned into an error, one of our errors (about a file, say), a device that failed.
_NOT_OF_ARGUMENTS = (Warning, UnlazyError, OSError, MemoryError, RuntimeError)
# Folders of code that is not the user's. Generated code has a name in angle brackets; that of a
# prompt, a notebook or a test is the user's.
_INSTALLED = (
    *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
    *(os.path.dirname(__file__), "<frozen", "<string>", "<@beartype"),
)
_TAKES_TORCH = f"{__name__.split('.')[0]}.laziness."  # the room of what takes PyTorch modules
_AFTER_INIT = ("__check_init__", "__post_init__")  # their arguments are the fields


def entry(function: F) -> F:
    """Decorate a public function or method: its failures name the argument that is at fault."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            explanation = _explanation(function, args, kwargs, error)
            if explanation is None:
                raise
            raise explanation from _original(error, unless=explanation)

    call.is_entry = True  # pyright: ignore[reportAttributeAccessIssue]  # a test asks for it
    return typing.cast(F, call)


def _explanation(
    function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any], error: Exception
) -> Exception | None:
    """A clear error in place of this one; None if it is clear, or if no argument is at fault.

    An explanation by an inner entry is dropped if this entry does not have the argument it names.
    """
    if (found := _torch_module(function, args, kwargs)) is not None:
        return _marked(found)
    if isinstance(error, _NOT_OF_ARGUMENTS) or _is_of_scikit_learn(error):
        return None
    with contextlib.suppress(Exception):  # an explanation must not raise
        arguments = list(_arguments(inspect.unwrap(function), args, kwargs))
        if any(_names(error, name) for name, *_ in arguments):
            return None
        original = _original(error) or error
        found = _misfit(arguments) or _suspect(arguments, original)
        if found is not None:
            return _marked(found)
        return None if original is error else original
    return None


def _marked(error: Exception) -> Exception:
    """The error, which `_original` knows for one of ours."""
    error.is_explanation = True  # pyright: ignore[reportAttributeAccessIssue]
    return error


def is_torch_module(model: Any) -> bool:
    """Whether this is a `torch.nn.Module`, asked without importing PyTorch."""
    return any(
        (base.__module__, base.__name__) == ("torch.nn.modules.module", "Module")
        for base in type(model).__mro__
    )


def _torch_module(
    function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]
) -> Exception | None:
    """The error for a module given to an entry that takes functions of JAX; None without one."""
    if not any(map(is_torch_module, (*args, *kwargs.values()))):
        return None
    if function.__module__.startswith(_TAKES_TORCH):
        return None
    with contextlib.suppress(Exception):  # an explanation must not raise
        for name, value, _ in _arguments(inspect.unwrap(function), args, kwargs):
            if is_torch_module(value):
                return TypeError(
                    f"`{name}` must be of JAX, got a torch.nn.Module, {type(value).__name__}. "
                    "PyTorch modules are taken by diagnose, Probe and width_check alone."
                )
    return None


def _original(error: Exception, unless: Exception | None = None) -> Exception | None:
    """The error behind an explanation, any other error itself, and None for `unless`."""
    found = error.__cause__ if getattr(error, "is_explanation", False) else error
    return found if isinstance(found, Exception) and found is not unless else None


def _names(error: Exception, argument: str) -> bool:
    return re.search(rf"`(\w+\.)*{argument}\b", str(error)) is not None


def _misfit(arguments: list[tuple[str, Any, Any]]) -> Exception | None:
    """The first argument that does not fit its annotation, or the shapes of those before it."""
    from unlazy.core import fitting  # not above: it imports JAX, which `unlazy list` does without

    axes = fitting.Axes()
    faults = (fitting.fault_of(name, value, hint, axes) for name, value, hint in arguments)
    return next((fault for fault in faults if fault is not None), None)


def _suspect(arguments: list[tuple[str, Any, Any]], error: Exception) -> Exception | None:
    """An argument that fits but may be the cause: not finite, empty, huge, or a list."""
    from unlazy.core import fitting

    if "` must" in str(error) or not isinstance(error, _OF_VALUES):
        return None
    for name, value, _ in arguments:
        if fitting.is_extreme(value):
            return ValueError(
                f"`{name}` must be finite, not empty and of ordinary size, "
                f"got {name}={fitting.short(value)}."
            )
    for name, value, hint in arguments:
        is_list = isinstance(value, list | tuple) and fitting.wants_array(hint)
        if is_list and isinstance(error, AttributeError | TypeError):
            return TypeError(
                f"`{name}` must be an array, got a {type(value).__name__}. "
                f"Pass jax.numpy.asarray({name})."
            )
    if _came_from_the_user(error):
        return None  # a function of the user's ran, and its error explains itself
    for name, _, hint in arguments:
        if fitting.wants_function(hint):
            return TypeError(
                f"`{name}` must be a function that takes and returns what is documented, but its "
                f"use failed with {type(error).__name__}: {error}"
            )
    return None


def _came_from_the_user(error: Exception) -> bool:
    """Whether code that is neither ours nor installed was running when the error was raised."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return any(not name.startswith(_INSTALLED) for name in frames)


def _is_of_scikit_learn(error: Exception) -> bool:
    """Whether scikit-learn's own checks refused: their texts name the input."""
    frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
    return f"{os.sep}sklearn{os.sep}" in frames[-1]


def _arguments(
    function: Callable[..., Any], args: tuple, kwargs: Mapping[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Names, values and annotations of the arguments that were passed."""
    if getattr(function, "__name__", "") in _AFTER_INIT:
        instance = args[0]
        hints = _hints(type(instance))
        for field in dataclasses.fields(instance):
            if hasattr(instance, field.name):
                yield field.name, getattr(instance, field.name), hints.get(field.name, Any)
        return
    bound, hints = inspect.signature(function).bind(*args, **kwargs), _hints(function)
    for name, value in bound.arguments.items():
        kind, hint = bound.signature.parameters[name].kind, hints.get(name, Any)
        if name in ("self", "cls"):
            continue
        if kind is inspect.Parameter.VAR_POSITIONAL:
            yield from ((name, item, hint) for item in value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            yield from ((key, item, hint) for key, item in value.items())
        else:
            default = bound.signature.parameters[name].default
            if value is not default:
                yield name, value, hint


@functools.cache
def _hints(owner: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(owner)
    except (NameError, TypeError):  # an annotation for type checkers alone
        return dict(getattr(owner, "__annotations__", {}))
