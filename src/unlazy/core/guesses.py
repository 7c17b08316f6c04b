# SPDX-License-Identifier: Apache-2.0
"""Computations that begin with a function as it was last time, while it is traced anew.

To trace a network takes the host 1.6 ms for four dense layers and 31 ms for a small transformer,
and nearly always the outcome is what it was before. A device that computes by itself need not wait.
The result is used only if the function turns out to be the same; else it is computed again.
"""

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

import jax

from unlazy.core.checks import is_known
from unlazy.core.current import (
    Traces,
    current,
    guessing,
    hashable,
    is_constant,
    program_of,
    with_program,
)

T = TypeVar("T")

_MOST = 64  # functions of which the last program is known, in the order of their use
_LAST: dict[Hashable, Traces] = {}
_LOCK = threading.Lock()
_NOTHING: Any = object()


def begun(
    compute: Callable[[Any], T], function: Any, arguments: tuple, key: Hashable, *, wait: bool
) -> T:
    """`compute(current(function, *arguments))`, begun before the function is traced.

    Args:
        compute: launches the work and returns without waiting for it. It is called with the
            function as it was last time first, so that it must do nothing else; there, an error of
            any kind is no error. `current.settle` ends it where the work would be long.
        function: as for `current.current`.
        arguments: what it is traced with.
        key: what else tells programs of this function apart, such as shapes.
        wait: trace the function before anything else.
    """
    known = all(is_known(leaf) for leaf in jax.tree.leaves((function, arguments)))
    if wait or not known or is_constant(function):
        return compute(current(function, *arguments))
    place = (hashable(function), key)
    guess = _LAST.get(place)
    found = _NOTHING if guess is None else _attempt(compute, with_program(function, guess))
    program = program_of(function, *arguments)
    if found is _NOTHING or program != guess:
        found = compute(with_program(function, program))
    _remember(place, program)
    return found


def _attempt(compute: Callable[[Any], T], function: Any) -> T:
    try:
        with guessing():
            return compute(function)
    except Exception:  # if it is a true one, it comes again
        return _NOTHING


def _remember(place: Hashable, program: Hashable) -> None:
    with _LOCK:
        _LAST.pop(place, None)
        # What a function does beside its result, such as printing, cannot be taken back.
        if isinstance(program, Traces) and not program.has_effects:
            _LAST[place] = program
            if len(_LAST) > _MOST:
                del _LAST[next(iter(_LAST))]
