# SPDX-License-Identifier: Apache-2.0
"""The settings that every rule gets: the order, the side of a kink, and where to report one."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr
from jaxtyping import Array

from unlazy.special.array_series import Series

Evaluate = Callable[["Context", ClosedJaxpr, Sequence[Series]], list[Series]]

SPARE = 2
"""Orders computed beyond those asked for on the sides of a kink: a rule within a rule, or a limit
of 0/0, costs one each."""


@dataclass
class Tie:
    """An operation that chooses between values, and whether equal ones were met that move apart."""

    name: str
    found: Array


@dataclass
class Context:
    """The settings of one pass over a program.

    `side` says which series is computed where the pieces of a function meet: 0 follows `jax.grad`,
    +1 takes the piece that holds for small t > 0, and -1 the one for t < 0. The two agree up to
    the order to which derivatives exist.

    `nested` is set within the program of a derivative, where a choice matters one order further
    than values are computed; `blind` where the operands of a choice are not known so far.
    """

    order: int
    evaluate: Evaluate
    side: int = 0
    nested: bool = False
    blind: bool = False
    ties: list[Tie] = field(default_factory=list)

    def lowered(self) -> "Context":
        """The context for the derivative of a series, which is known to one order less."""
        return replace(self, order=self.order - 1, nested=True, blind=False)  # `ties` is shared

    def knowing(self, known: int | float) -> "Context":
        """The context for a choice between values that are known to that order."""
        return replace(self, blind=self.nested and known <= self.order)  # `ties` is shared

    def inner(self) -> "Context":
        """The context for the body of a loop, whose ties are not values of the program around."""
        return replace(self, ties=[])

    def report(self, name: str, tied: Array) -> None:
        """Note where an operation met equal values that move apart."""
        if self.side == 0:
            self.ties.append(Tie(name, jnp.any(tied)))

    def any_tie(self) -> Array:
        """Whether there was a tie so far."""
        found = jnp.zeros((), bool)
        for tie in self.ties:
            found = found | tie.found
        return found
