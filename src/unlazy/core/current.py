# SPDX-License-Identifier: Apache-2.0
"""Functions as they are now, so that a compiled program is used only while they stay the same.

JAX keeps compiled programs by the identity of a function. What the function reads from its
surroundings (a global number, a cell of a closure, an attribute, a NumPy array) is compiled in, and
a change of it goes unnoticed. Here the function is traced anew at each call: whatever it reads
shows in the trace, and the digest of the trace becomes a part of its identity.
"""

import contextlib
import contextvars
import dataclasses
import types
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr

from unlazy.core.digests import digest

_PACKAGE = __name__.split(".")[0]
_COMPILED = type(jax.jit(lambda: 0))
_PLAIN = (bool, int, float, complex, str, bytes, type(None))


class Current(eqx.Module):
    """A function with the program that it stood for when it was traced.

    It is equal to another one of an equal function and an equal program.
    """

    function: Callable[..., Any]
    program: Hashable = eqx.field(static=True)

    def __call__(self, *arguments: Any) -> Any:
        """Call the function, to trace it: a compiled program does without."""
        settle()
        return self.function(*arguments)


class GuessError(Exception):
    """A guess cannot be used here: the function must be known as it is now."""


_GUESSING: contextvars.ContextVar[bool] = contextvars.ContextVar("guessing", default=False)


def settle() -> None:
    """Raise if what is under way is a guess: before a function is traced, or before long work."""
    if _GUESSING.get():
        raise GuessError


@contextlib.contextmanager
def guessing() -> Iterator[None]:
    """The scope of a computation with a function as it was before.

    Nothing is traced in it. A trace would be of the function as it is now, and would be kept as the
    program of what it was before.
    """
    token = _GUESSING.set(True)
    try:
        yield
    finally:
        _GUESSING.reset(token)


def current(function: Any, *arguments: Any) -> Any:
    """The function as it is now, to be compiled in the place of `function`.

    Its arrays, if it is a pytree, are no constants. A learner of ours that reads nothing from
    outside is returned as it is.

    Args:
        function: what will be compiled.
        arguments: what it will be called with, or arrays of such shapes (`jax.ShapeDtypeStruct`).
    """
    if is_constant(function):
        return function
    return with_program(function, program_of(function, *arguments))


def with_program(function: Any, program: Hashable) -> Current:
    """The function as it is while its program is this one."""
    is_leaf = jax.tree_util.all_leaves([function])
    return Current(hashable(function) if is_leaf else function, program)


@dataclasses.dataclass(frozen=True, eq=False)
class ByIdentity:
    """A function without a hash, equal to itself alone."""

    function: Callable[..., Any]

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        return self.function(*arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and self.function is other.function

    def __hash__(self) -> int:
        return id(self.function)


def hashable(function: Any) -> Any:
    """The function itself if it has a hash, so that equal ones compile once, else a wrapper."""
    try:
        hash(function)
    except TypeError:
        return ByIdentity(function)
    return function


def unwrapped(function: Any) -> Any:
    """The function itself, to ask what else it offers."""
    return function.function if isinstance(function, Current | ByIdentity) else function


class Traces(NamedTuple):
    """The digests of the traces of a function and of its derivatives."""

    digests: tuple[str, ...]
    has_effects: bool  # whether it prints, say


def program_of(function: Any, *arguments: Any) -> Hashable:
    """What identifies the program of `function` at such arguments, its derivatives included.

    Where there is no trace, since the call fails or since `function` holds arrays that are being
    traced, it is equal to nothing else: the function will be traced, and fails, where it is used.
    """
    call, leaves = _flat(function, arguments)
    digests, known = [], set()
    try:
        closed = _kept(function, arguments, len(leaves)) or jax.make_jaxpr(call)(*leaves)
        while True:
            found = digest(closed)
            digests.append(found.value)
            new = found.rules - known
            if not new:
                return Traces(tuple(digests), bool(closed.jaxpr.effects))
            # A custom derivative shows only where it is taken; it may use others in turn.
            known |= new
            call = _derivative(call, leaves, reverse=any(rule.reverse for rule in known))
            closed = jax.make_jaxpr(call)(*leaves)
    except Exception:  # whatever it is, the call that is about to follow says it better
        return _Unequalled()


def _kept(function: Any, arguments: tuple, arrays: int) -> ClosedJaxpr | None:
    """The trace that JAX keeps of a function under `jax.jit`, where all it is given are arrays."""
    if not isinstance(function, _COMPILED) or len(jax.tree.leaves(arguments)) != arrays:
        return None
    return function.trace(*arguments).jaxpr


class _Unequalled:
    """A program that is equal to no other."""


def _flat(function: Any, arguments: tuple) -> tuple[Callable[..., Any], list[Any]]:
    """A new function of the arrays alone: JAX has no trace of it."""
    leaves, structure = jax.tree.flatten((function, arguments))
    places = [k for k, leaf in enumerate(leaves) if _is_array(leaf)]

    def call(*arrays: Any) -> list[Any]:
        function, arguments = structure.unflatten(_with(leaves, places, arrays))
        return list(filter(eqx.is_array_like, jax.tree.leaves(function(*arguments))))

    return call, [leaves[k] for k in places]


def _with(leaves: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """The leaves with these values in these places."""
    filled = list(leaves)
    for k, value in zip(places, values, strict=True):
        filled[k] = value
    return filled


def _derivative(
    call: Callable[..., Any], leaves: Sequence[Any], *, reverse: bool
) -> Callable[..., Any]:
    """The derivative along a direction, or with `reverse` the gradient of the sum of outputs."""
    moving = [k for k, leaf in enumerate(leaves) if jnp.issubdtype(leaf.dtype, jnp.inexact)]

    def derivative(*leaves: Any) -> Any:
        def moved(*floats: Any) -> Any:
            return list(filter(eqx.is_inexact_array, call(*_with(leaves, moving, floats))))

        floats = [leaves[k] for k in moving]
        if not reverse:
            return jax.jvp(moved, floats, floats)
        out, pull = jax.vjp(moved, *floats)
        return out, pull(out)

    return derivative


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray | jax.ShapeDtypeStruct)


def is_constant(value: Any) -> bool:
    """Whether a value is made of this package's immutable classes and of plain values alone."""
    kind = type(value)
    if kind in (*_PLAIN, Current) or isinstance(value, jax.Array):
        return True
    if kind is types.MethodType:
        return _is_ours(value.__func__) and is_constant(value.__self__)
    if not (kind is tuple or _is_ours(kind)):
        return False
    if isinstance(value, tuple):
        return all(map(is_constant, value))
    parameters = getattr(kind, "__dataclass_params__", None)
    if not (isinstance(value, eqx.Module) or (parameters is not None and parameters.frozen)):
        return False
    return all(is_constant(getattr(value, field.name)) for field in dataclasses.fields(value))


def _is_ours(definition: Any) -> bool:
    return definition.__module__.split(".")[0] == _PACKAGE
