# SPDX-License-Identifier: Apache-2.0
r"""Find the ReLUs of a network: the units that are either active or not at an input.

They are found in the traced program, under whatever name the network calls them: `max(z, 0)`, also
within `jax.nn.relu` and its like, and `where(z > 0, z, a z)` with a number a. Loops and branches
are not searched. A maximum that goes into a root keeps a variance from falling below 0, as in layer
normalisation, and is no ReLU.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.extend.core import Literal
from jaxtyping import Array, Bool

from unlazy.core.jaxprs import Name, Program, Step, flattened, read

_COMPARISONS = ("gt", "ge", "lt", "le")
_ROOTS = ("sqrt", "rsqrt")
_MOVES = ("broadcast_in_dim", "convert_element_type", "reshape", "copy")


class Switch(NamedTuple):
    """A ReLU: where in the program it is, and what it takes in."""

    step: int
    z: Name


def find_switches(program: Program) -> list[Switch]:
    """The ReLUs of a program, in the order of use."""
    zeros = _zeros(program)
    found: dict[Name, Switch] = {}
    for k, step in enumerate(program.steps):
        for z in _switched(program, step, zeros):
            if isinstance(z, int) and not _goes_into_root(program, step):
                found.setdefault(z, Switch(k, z))
    return list(found.values())


def active_units(switches: list[Switch], values: dict[Name, Any]) -> list[Bool[Array, " units"]]:
    """Per ReLU, which of its units are active, from all values of the program at one sample."""
    return [(jnp.asarray(read(values, switch.z)) > 0).reshape(-1) for switch in switches]


def _switched(program: Program, step: Step, zeros: set[Name]) -> Iterator[Any]:
    """What a step takes in as a ReLU does."""
    name = step.eqn.primitive.name
    if name == "max":
        for side in (0, 1):
            if _is_zero(step.operands[1 - side], zeros):
                yield step.operands[side]
    elif name.startswith(("custom_jvp_call", "custom_vjp_call")):
        yield from _switched_within(step)
    elif name in _COMPARISONS:
        for side in (0, 1):
            if _is_zero(step.operands[1 - side], zeros) and _chooses(program, step, side, zeros):
                yield step.operands[side]


def _goes_into_root(program: Program, step: Step) -> bool:
    """Whether a result is used in roots alone, with a constant added to it or not."""
    users = [other for other in program.steps if step.results[0] in other.operands]
    return bool(users) and all(
        user.eqn.primitive.name in _ROOTS
        or (user.eqn.primitive.name in ("add", *_MOVES) and _goes_into_root(program, user))
        for user in users
    )


def _switched_within(step: Step) -> Iterator[Any]:
    """The arguments that an operation with a derivative of its own takes in as a ReLU does."""
    inner = flattened(step.eqn.params["call_jaxpr"])
    places = {name: k for k, name in enumerate(inner.arguments)}
    for switch in find_switches(inner):
        if switch.z in places:
            yield step.operands[places[switch.z]]


def _chooses(program: Program, comparison: Step, side: int, zeros: set[Name]) -> bool:
    """Whether the comparison selects between z and a multiple of z."""
    z = comparison.operands[side]
    makers = {name: step for step in program.steps for name in step.results}

    def is_multiple(name: Any) -> bool:
        if name == z or _is_zero(name, zeros):
            return True
        maker = None if isinstance(name, Literal) else makers.get(name)
        if maker is None or maker.eqn.primitive.name != "mul" or z not in maker.operands:
            return False
        other = maker.eqn.invars[1 - maker.operands.index(z)]
        return getattr(other.aval, "shape", None) == () or isinstance(other, Literal)

    # All that the sign of z decides counts: ELU chooses between z and 0 on its way.
    chosen = {
        step.results[0]
        for step in program.steps
        if step.eqn.primitive.name in _COMPARISONS and z in step.operands
    }
    selections = [
        step.operands[1:]
        for step in program.steps
        if step.eqn.primitive.name == "select_n" and step.operands[0] in chosen
    ]
    whole = [cases for cases in selections if z in cases]
    return bool(whole) and all(is_multiple(case) for cases in selections for case in cases)


def _zeros(program: Program) -> set[Name]:
    """The values that are zero whatever the arguments are."""
    zeros: set[Name] = set()
    for step in program.steps:
        if step.eqn.primitive.name in _MOVES and _is_zero(step.operands[0], zeros):
            zeros.update(step.results)
    return zeros


def _is_zero(name: Any, zeros: set[Name]) -> bool:
    if isinstance(name, Literal):
        return np.ndim(name.val) == 0 and bool(name.val == 0)
    return name in zeros
