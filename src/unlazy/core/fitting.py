# SPDX-License-Identifier: Apache-2.0
"""Whether a value fits an annotation, and what to say where it does not.

The rules are as lenient as the library: a list of numbers fits an array, an integer fits a float,
and everything fits an annotation of an unknown kind.
"""

import collections.abc
import inspect
import math
import types
import typing
from typing import Any

import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
from jax.core import Tracer

from unlazy.core.checks import is_key, short

Axes = dict[str, tuple[Any, str]]
"""Sizes of the axes seen so far, each with the argument that had it."""

_UNIONS = (typing.Union, types.UnionType)
_SEQUENCES = (list, tuple, collections.abc.Sequence, collections.abc.Iterable)
_WORDS = {
    int: "an integer",
    float: "a number",
    bool: "True or False",
    str: "a string",
    type(None): "None",
    np.number: "a number",
    np.ndarray: "an array of numbers",
    jax.Array: "an array of numbers",
}


def fault_of(name: str, value: Any, hint: Any, axes: Axes) -> Exception | None:
    """The error that says how the value does not fit; None where it does."""
    if not fits(value, hint):
        return TypeError(f"`{name}` must be {expected(hint)}, got {name}={short(value)}.")
    arrays = _array_options(hint)
    if not arrays or not is_numeric(value):
        return None
    shape = tuple(np.shape(value))
    for option in arrays:
        found = match_axes(option.dim_str, shape, axes, name)
        if found is not None:
            axes.update(found)
            return None
    # Another option may take the value: None, a number, an operator.
    if any(fits(value, option) for option in _options(hint) if option not in arrays):
        return None
    dims = arrays[0].dim_str.split()
    known = [f"{d}={axes[d][0]} as in `{axes[d][1]}`" for d in dims if d in axes]
    where = f" with {', '.join(known)}" if known else ""
    return ValueError(
        f"`{name}` must have shape ({', '.join(dims)}){where}, got {name}.shape={shape}."
    )


def fits(value: Any, hint: Any) -> bool:
    """Whether the value is of the annotated kind, whatever its shape."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or isinstance(hint, str | typing.TypeVar):
        return True
    if _is_key_hint(hint):
        return is_key(value) or (type(None) in inner and value is None)
    if origin in _UNIONS:
        return any(fits(value, option) for option in inner)
    if origin is typing.Literal:
        return any(value is option or value == option for option in inner)
    if origin is typing.Annotated:
        return fits(value, inner[0])
    if origin is type:
        return isinstance(value, type)
    if hint is None:
        return value is None
    if origin is not None:
        return _fits_container(value, origin, inner)
    return _fits_class(value, hint)


def _fits_class(value: Any, hint: Any) -> bool:
    if not isinstance(hint, type):
        return callable(value) if hint is typing.Callable else True
    if issubclass(hint, jaxtyping.AbstractArray) or hint in (jax.Array, np.ndarray):
        return is_numeric(value)
    if hint in (int, np.integer, float, np.number, np.floating):
        return _is_number(value, whole=hint in (int, np.integer))
    if hint is bool:
        return isinstance(value, bool | np.bool_)
    try:
        return isinstance(value, hint)
    except TypeError:  # a protocol that cannot be tested
        return True


def _fits_container(value: Any, origin: Any, inner: tuple) -> bool:
    if origin is collections.abc.Callable:
        return callable(value)
    if inspect.isclass(origin) and issubclass(origin, collections.abc.Mapping):
        return isinstance(value, collections.abc.Mapping)
    if origin in _SEQUENCES:
        if isinstance(value, str | bytes | dict) or not isinstance(value, collections.abc.Iterable):
            return False
        if not isinstance(value, list | tuple):  # an array, or a generator, which must stay whole
            return origin is collections.abc.Iterable or is_numeric(value)
        if origin is tuple and inner and inner[-1] is not Ellipsis:
            return len(value) == len(inner) and all(map(fits, value, inner))
        return all(fits(item, inner[0]) for item in value) if inner else True
    return isinstance(value, origin) if inspect.isclass(origin) else True


def is_numeric(value: Any) -> bool:
    """Whether the value is an array of real numbers, or a number or nested list that makes one."""
    if isinstance(value, jax.Array):
        return not jnp.issubdtype(value.dtype, jnp.complexfloating) and not is_key(value)
    if isinstance(value, np.ndarray | np.generic):
        return value.dtype.kind in "biuf" or jnp.issubdtype(value.dtype, jnp.floating)
    if isinstance(value, list | tuple | int | float):
        leaves = jax.tree.leaves(value)
        if any(isinstance(leaf, Tracer) for leaf in leaves):
            return True
        try:
            return np.asarray(value).dtype.kind in "biuf"
        except (ValueError, TypeError):  # rows of different lengths
            return False
    return False


def is_extreme(value: Any) -> bool:
    """Whether a number is not finite or beyond 64 bits, or an array empty or not finite."""
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) >= 2**63
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, Tracer) or not isinstance(value, np.ndarray | jax.Array | list):
        return False
    if not is_numeric(value):
        return False
    array = np.asarray(value, np.float64)
    return array.size == 0 or not bool(np.isfinite(array).all())


def _is_number(value: Any, *, whole: bool) -> bool:
    if isinstance(value, bool | np.bool_) or not is_numeric(value) or isinstance(value, list):
        return False
    if np.ndim(value) != 0:
        return False
    return (
        not whole or isinstance(value, int) or jnp.issubdtype(jnp.result_type(value), jnp.integer)
    )


def _options(hint: Any) -> tuple[Any, ...]:
    return typing.get_args(hint) if typing.get_origin(hint) in _UNIONS else (hint,)


def _is_key_hint(hint: Any) -> bool:
    """Whether the hint is a key, or JAX's union of a key and the integers of an old one."""
    return getattr(_options(hint)[0], "dtype", None) is jaxtyping.Key


def _array_options(hint: Any) -> list[Any]:
    """The array annotations, each with a `dim_str`, among the options of a hint."""
    if _is_key_hint(hint):
        return []
    classes = [option for option in _options(hint) if isinstance(option, type)]
    return [
        option
        for option in classes
        if issubclass(option, jaxtyping.AbstractArray) and not _is_key_hint(option)
    ]


def wants_array(hint: Any) -> bool:
    """Whether the hint has an array among its options and no sequence."""
    return bool(_array_options(hint)) and not any(
        typing.get_origin(option) in _SEQUENCES or option in _SEQUENCES for option in _options(hint)
    )


def wants_function(hint: Any) -> bool:
    """Whether the hint is a function, or a function or None."""
    options = [option for option in _options(hint) if option is not type(None)]
    return all(typing.get_origin(option) is collections.abc.Callable for option in options)


def match_axes(dims: str, shape: tuple[int, ...], axes: Axes, name: str) -> Axes | None:
    """Sizes of the axes if the shape fits `dims`, such as `"n *c"`, and the sizes known so far."""
    parts = dims.split()
    many = [i for i, part in enumerate(parts) if part.startswith("*") or part == "..."]
    if len(many) > 1 or (not many and len(parts) != len(shape)) or len(parts) - 1 > len(shape):
        return None
    sizes: list[Any] = list(shape)
    if many:  # the middle axes count as one, a tuple
        tail = len(parts) - many[0] - 1
        sizes = [*shape[: many[0]], shape[many[0] : len(shape) - tail], *shape[len(shape) - tail :]]
    found: Axes = {}
    for part, size in zip(parts, sizes, strict=True):
        known = found.get(part, axes.get(part, (size, name)))[0]
        if part.isdigit():
            known = int(part)
        if part not in ("_", "...") and not part.startswith("#") and known != size:
            return None
        if part != "_" and part.lstrip("*").isidentifier():
            found[part] = (size, name)
    return found


def expected(hint: Any) -> str:
    """The annotation in words."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if _is_key_hint(hint):
        return "one random key, made with jax.random.key(seed)"
    if origin in _UNIONS:
        words = list(dict.fromkeys(expected(option) for option in inner))
        if "a number" in words:
            words = [word for word in words if word != "an integer"]
        return " or ".join(words)
    if origin is typing.Literal:
        return f"one of {', '.join(map(repr, inner))}"
    if origin is collections.abc.Callable or hint is typing.Callable:
        return "a function"
    if origin in _SEQUENCES:
        return "a sequence" + (f", each entry {expected(inner[0])}" if inner else "")
    if isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray):
        dims = ", ".join(hint.dim_str.split())
        return f"an array of numbers of shape ({dims})"
    if hint in _WORDS:
        return _WORDS[hint]
    kind = origin or hint
    return f"of type {getattr(kind, '__name__', kind)}"
