# SPDX-License-Identifier: Apache-2.0
"""Digests of traced functions: equal for two traces that compute the same from their arguments.

A digest covers the operations, how they are wired, their parameters and the values of all
constants. It leaves out what differs between two traces of an unchanged function: the variables
themselves, addresses, and the rules of custom derivatives, which are new objects at each trace.
Whoever needs these rules traces a derivative; `Digest.rules` says where there are any.
"""

import dataclasses
import enum
import functools
import hashlib
import os
import re
import types
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal

_OF_JAX = os.path.dirname(jax.__file__)
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_PLAIN = (bool, int, float, complex, str, bytes, type(None), enum.Enum, type, np.dtype)
_OFTEN = frozenset((bool, int, float, str, type(None)))  # found sooner than by `isinstance`

# The contents of arrays of JAX by their identity: they cannot change, and a large one is read once.
_CONTENTS: dict[int, tuple[weakref.ref, str]] = {}
# The digests of inner programs without arrays of NumPy. JAX keeps those of a function that is
# compiled by `jax.jit`, and hands out the same objects at the next trace.
_PROGRAMS: "weakref.WeakKeyDictionary[Any, Digest]" = weakref.WeakKeyDictionary()


class Rule(NamedTuple):
    """An operation with a derivative of its own, that is not one of JAX's."""

    where: str  # the function and its place in the source, as JAX tells it
    reverse: bool  # whether it has no forward derivative


class Digest(NamedTuple):
    """The digest of a program, and the rules of derivatives that are not in it."""

    value: str
    rules: frozenset[Rule]
    may_change: bool = False  # whether an array of NumPy is among the constants


@dataclasses.dataclass
class _Found:
    """What is met while a program is written out."""

    rules: set[Rule] = dataclasses.field(default_factory=set)
    may_change: bool = False


class UnknownValueError(Exception):
    """A constant is itself being traced: it has no value to compare."""


def digest(closed: ClosedJaxpr) -> Digest:
    """The digest of a traced function.

    Raises:
        UnknownValueError: a constant belongs to a transformation that is under way.
    """
    return _PROGRAMS.get(closed) or _of_inner(closed, {})


@functools.lru_cache(maxsize=4096)
def _name(kind: Any) -> str:
    """The text of a shape or a dtype: there are few, and NumPy takes long to write them."""
    return str(kind)


def _joined(parts: Iterator[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _program(
    jaxpr: Jaxpr, consts: Sequence[Any], found: _Found, known: dict[int, Digest]
) -> Iterator[str]:
    """The parts of a program: its variables are numbered in the order in which they appear."""
    numbers: dict[Any, int] = {}

    def read(atom: Any) -> str:
        if isinstance(atom, Literal):
            return f"{_name(atom.aval)}={_contents(np.asarray(atom.val))}"
        return str(numbers[atom])

    for variable in (*jaxpr.constvars, *jaxpr.invars):
        numbers[variable] = len(numbers)
        yield _name(variable.aval)
    found.may_change |= any(isinstance(const, np.ndarray) for const in consts)
    yield from map(_contents, consts)
    for eqn in jaxpr.eqns:
        yield eqn.primitive.name
        yield from map(read, eqn.invars)
        yield from _parameters(eqn, found, known)
        for variable in eqn.outvars:
            numbers[variable] = len(numbers)
    yield from map(read, jaxpr.outvars)


def _parameters(eqn: JaxprEqn, found: _Found, known: dict[int, Digest]) -> Iterator[str]:
    parameters = eqn.params
    if eqn.primitive.name.startswith(("custom_jvp_call", "custom_vjp_call")):
        program = parameters.get("call_jaxpr")
        where = getattr(getattr(program, "jaxpr", program), "debug_info", None)
        source = str(getattr(where, "func_src_info", None))
        if f" at {_OF_JAX}" not in source:
            found.rules.add(Rule(source, eqn.primitive.name.startswith("custom_vjp")))
        parameters = {"call": program}
    for name in sorted(parameters):
        yield name
        yield _written(parameters[name], found, known)


def _written(value: Any, found: _Found, known: dict[int, Digest]) -> str:
    """A parameter of an operation as text that is the same for equal values."""
    if type(value) in _OFTEN or isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, tuple | list | set | frozenset):
        parts = [_written(part, found, known) for part in value]
        return repr(sorted(parts) if isinstance(value, set | frozenset) else parts)
    if isinstance(value, ClosedJaxpr | Jaxpr):
        # One inner program may be called many times. Where there are arrays of NumPy among its
        # constants, which may change, its digest is good for this trace only.
        if id(value) not in known:
            known[id(value)] = _PROGRAMS.get(value) or _of_inner(value, known)
        inner = known[id(value)]
        found.rules |= inner.rules
        found.may_change |= inner.may_change
        return inner.value
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        found.may_change |= isinstance(value, np.ndarray)
        return _contents(value)
    if isinstance(value, Mapping):
        pairs = ((repr(key), _written(part, found, known)) for key, part in value.items())
        return repr(sorted(pairs))
    if isinstance(value, types.FunctionType):  # of the host: it reads its surroundings when it runs
        return f"{value.__qualname__} {hash(value.__code__)}"
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return f"{type(value).__qualname__} {_written(fields, found, known)}"
    return _ADDRESS.sub("", repr(value))


def _of_inner(value: ClosedJaxpr | Jaxpr, known: dict[int, Digest]) -> Digest:
    found = _Found()
    inner, consts = (value, ()) if isinstance(value, Jaxpr) else (value.jaxpr, value.consts)
    text = _joined(_program(inner, consts, found, known))
    made = Digest(text, frozenset(found.rules), found.may_change)
    if not made.may_change:
        _PROGRAMS[value] = made
    return made


def _contents(array: Any) -> str:
    """The digest of an array's entries."""
    if isinstance(array, Tracer):
        raise UnknownValueError
    if not isinstance(array, jax.Array):
        return _of_entries(np.asarray(array))
    found = _CONTENTS.get(id(array))
    if found is not None and found[0]() is array:
        return found[1]
    text, place = _of_entries(_on_host(array)), id(array)
    _CONTENTS[place] = weakref.ref(array, lambda _: _CONTENTS.pop(place, None)), text
    return text


def _on_host(array: jax.Array) -> np.ndarray:
    is_key = jnp.issubdtype(array.dtype, jax.dtypes.prng_key)
    return np.asarray(jax.random.key_data(array) if is_key else array)


def _of_entries(array: np.ndarray) -> str:
    head = f"{_name(array.dtype)} {array.shape} "
    if array.size <= 1:
        return head + array.tobytes().hex()
    entries = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return head + hashlib.sha256(entries.data).hexdigest()
