# SPDX-License-Identifier: Apache-2.0
"""Functions of the user traced in float64, apart from the traces that they have outside.

JAX keeps what it makes of a NumPy array by the identity of the array, and not by the x64 setting,
for as long as a trace holds it (seen in 0.10.2). A function that reads a float64 array, traced in a
float64 scope and without, so mixes both dtypes: its second trace fails, the user's own
`jax.jit` included. Here the function reads views of the arrays, which are other objects.
"""

import functools
import inspect
import sysconfig
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

_WIDE = (np.float64, np.complex128, np.int64, np.uint64)  # what JAX narrows where x64 is off
_MANY = 1000  # items of a list that is not looked through
_JIT = type(jax.jit(len))
# Whose code reads no global of the user's.
_INSTALLED = (
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(kind) for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
)


class Sheltered:
    """A function that reads views of its NumPy arrays; it is equal to another of that function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.function = function

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call the function with what it reads now: it may have changed since the last call."""
        return _sheltered(self.function, {})(*arguments, **options)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sheltered) and self.function == other.function

    def __hash__(self) -> int:
        return hash(self.function)


def sheltered(function: Any) -> Any:
    """The function, to be traced in `float64()`; itself if it reads no NumPy array of 64 bits.

    Arrays are found in closures, globals, defaults and partial arguments, also in tuples, lists and
    dictionaries there, and in functions of the user that the function calls.

    Example:
        >>> x = np.arange(3.0)
        >>> def mean(w):
        ...     return (w * x).mean()
        >>> print(isinstance(sheltered(mean), Sheltered), sheltered(len) is len)
        True True
    """
    return function if _sheltered(function, {}) is function else Sheltered(function)


def _sheltered(value: Any, seen: dict[int, Any]) -> Any:
    """A value with views in the place of arrays; the value itself if there are none in it."""
    if isinstance(value, np.ndarray):
        return value.view() if value.dtype.type in _WIDE else value
    if id(value) in seen:  # what holds or calls itself
        return seen[id(value)]
    if isinstance(value, types.FunctionType):
        return _rebuilt(value, seen)
    if isinstance(value, _JIT):  # what is traced in it is traced as well without
        function = inspect.unwrap(value, stop=lambda inner: not isinstance(inner, _JIT))
        inner = _sheltered(function, seen)
        return value if inner is function else inner
    if isinstance(value, functools.partial):
        parts = value.func, value.args, value.keywords
        func, args, options = (_sheltered(part, seen) for part in parts)
        same = not _differ((func, args, options), parts)
        return value if same else functools.partial(func, *args, **options)
    if type(value) in (tuple, list, dict) and len(value) <= _MANY:
        seen[id(value)] = value
        old = list(value.values() if isinstance(value, dict) else value)
        new = [_sheltered(item, seen) for item in old]
        if _differ(new, old):
            items = zip(value, new, strict=True) if isinstance(value, dict) else new
            return type(value)(items)
    return value


def _rebuilt(function: types.FunctionType, seen: dict[int, Any]) -> types.FunctionType:
    seen[id(function)] = function
    cells = [_contents(cell) for cell in function.__closure__ or ()]
    is_users = not function.__code__.co_filename.startswith(_INSTALLED)
    names = _read(function.__code__, function.__globals__) if is_users else {}
    parts = [*cells, *names.values(), function.__defaults__, function.__kwdefaults__]
    found = [_sheltered(part, seen) for part in parts]
    if not _differ(found, parts):
        return function
    *rest, defaults, options = found
    closure = tuple(
        cell if new is old else types.CellType(new)
        for cell, new, old in zip(function.__closure__ or (), rest, cells, strict=False)
    )
    read = function.__globals__ | dict(zip(names, rest[len(cells) :], strict=True))
    new = types.FunctionType(function.__code__, read, function.__name__, defaults, closure)
    new.__kwdefaults__ = options
    return new


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not yet assigned
        return None


def _read(code: types.CodeType, scope: dict[str, Any]) -> dict[str, Any]:
    """The globals that the code may read, in functions that it defines too."""
    found = {name: scope[name] for name in code.co_names if name in scope}
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            found |= _read(inner, scope)
    return found


def _differ(new: Any, old: Any) -> bool:
    return any(a is not b for a, b in zip(new, old, strict=True))
