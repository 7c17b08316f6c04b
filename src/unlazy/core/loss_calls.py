# SPDX-License-Identifier: Apache-2.0
"""What a loss is, for everything that trains or certifies: how it is called, and what compiles.

A loss is any callable that returns one real number: `loss(params)` without data, `loss(params,
data)` with data, and a key last if it is stochastic. Arrays in a loss that is a pytree, such as an
`eqx.Module`, are arguments of the compiled program, like the data. Everything else in it is
compiled in. Parts with a hash are compared by equality, parts without one by identity, and all of
them by what they compute: a loss that has changed is compiled anew (`current`).
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.current import (
    ByIdentity,
    Current,
    hashable,
    is_constant,
    program_of,
    unwrapped,
)

Loss = Callable[..., Float[Array, ""]]
"""`loss(params)`, or `loss(params, data)` where data is given: a scalar."""


def call_loss(loss: Loss, params: Any, data: Any, key: PRNGKeyArray | None = None) -> Any:
    """Call the loss with the data and key that there are; with None if it insists on data."""
    last = () if key is None else (key,)
    if data is None and _takes(loss, params, *last) is not False:
        return loss(params, *last)
    return loss(params, data, *last)


def check_loss_call(loss: Any, data: Any, *, stochastic: bool = False) -> None:
    """Raise unless `loss` is a function of as many arguments as it will be called with."""
    names = ["params", *([] if data is None else ["data"]), *(["key"] if stochastic else [])]
    if not callable(loss):
        raise TypeError(f"`loss` must be a function of ({', '.join(names)}), got loss={loss!r}.")
    options = [names] if data is not None else [names, ["params", "data", *names[1:]]]
    if all(_takes(loss, *option) is False for option in options):
        given = "None" if data is None else "given"
        raise TypeError(
            f"`loss` must be a function of ({', '.join(names)}) where `data` is {given}, got a "
            f"function of {inspect.signature(loss)}. Pass data=None for a loss of the parameters "
            "alone."
        )


def as_pair(batch: Any) -> tuple[Array, Array]:
    """The inputs and labels of a batch; raise where it is one array, which might have two rows."""
    if not isinstance(batch, tuple | list) or len(batch) != 2:
        is_many = isinstance(batch, tuple | list)
        got = f"{len(batch)} items" if is_many else f"one array of shape {np.shape(batch)}"
        raise ValueError(
            f"`data` must be a pair (x, y) of inputs and labels for this loss, got {got}."
        )
    return batch[0], batch[1]


def needs_data(loss: Any) -> bool:
    """Whether a loss cannot be called with the parameters alone."""
    return _takes(loss, "params") is False


def _takes(loss: Any, *arguments: Any) -> bool | None:
    """Whether a function takes these arguments; None where it has no signature, if compiled."""
    try:
        signature = inspect.signature(unwrapped(loss))
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


@dataclass(frozen=True)
class LossProgram:
    """The part of a loss that is compiled in: everything but its arrays, hashable."""

    structure: Any
    statics: tuple[Any, ...]  # None in the places of arrays

    @property
    def count(self) -> int:
        """How many arrays it has."""
        return sum(static is None for static in self.statics)

    def __call__(
        self, arrays: list[Any], params: Any, data: Any, key: PRNGKeyArray | None = None
    ) -> Any:
        """Evaluate the loss with these arrays."""
        return call_loss(self.filled(arrays), params, data, key)

    def filled(self, arrays: list[Any]) -> Any:
        """The loss with these arrays put back."""
        rest = iter(arrays)
        leaves = [next(rest) if static is None else static for static in self.statics]
        return jax.tree.unflatten(self.structure, leaves)


def loss_program(loss: Any) -> tuple[LossProgram, list[Any]]:
    """Split a loss into what is compiled in and its arrays."""
    leaves, structure = jax.tree.flatten(loss)
    try:
        hash(structure)
    except TypeError:
        leaves, structure = jax.tree.flatten(ByIdentity(loss))
    statics = tuple(None if _is_array(leaf) else hashable(leaf) for leaf in leaves)
    return LossProgram(structure, statics), [leaf for leaf in leaves if _is_array(leaf)]


def as_pytree(loss: Any) -> Any:
    """The loss with its arrays as leaves, and parts without a hash wrapped."""
    program, arrays = loss_program(loss)
    return program.filled(arrays)


def current_loss(loss: Any, params: Any, data: Any) -> Any:
    """The loss as it is now at these arguments, to be compiled in its place; see `current`."""
    if is_constant(loss):
        return loss
    return Current(loss, program_of(call_loss, loss, params, data))


def _is_array(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, np.ndarray)
