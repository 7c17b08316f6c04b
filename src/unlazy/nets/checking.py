# SPDX-License-Identifier: Apache-2.0
"""What all learners share: flags of their parameters by layer, and checks of their arguments."""

from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from unlazy.activations import Activation, activation
from unlazy.core.errors import UnknownNameError


class LearnerParams(eqx.Module):
    """Parameters of a learner, which know their last layer and their weights; see `partition`."""

    _last: ClassVar[str] = "a"
    _weights: ClassVar[tuple[str, ...]] = ("W",)

    def is_last(self) -> "LearnerParams":
        """True at the output weights."""
        return self._flags(self._last)

    def is_weight(self) -> "LearnerParams":
        """True at the hidden weights, without their biases."""
        return self._flags(*self._weights)

    def _flags(self, *names: str) -> "LearnerParams":
        flags = jax.tree.map(lambda _: False, self)
        return eqx.tree_at(
            lambda params: [getattr(params, name) for name in names], flags, [True] * len(names)
        )


def as_activation(value: str | Activation) -> Activation:
    """The activation; an unknown name is reported as the argument `activation`."""
    try:
        return activation(value)
    except UnknownNameError as error:
        raise UnknownNameError(str(error).replace("name", "activation", 2)) from None


def check_kind(value: object, *kinds: type, name: str = "net") -> None:
    """Raise unless this network, or these parameters, is of one of these kinds."""
    if not isinstance(value, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"`{name}` must be a {names}, got {type(value).__name__}.")


def check_rows(x: Array | np.ndarray, inputs: int) -> None:
    """Raise unless `x` has one sample per row, of `inputs` entries."""
    if jnp.ndim(x) != 2 or jnp.shape(x)[1] != inputs:
        raise ValueError(
            f"`x` must have shape (n, {inputs}), one sample a row, got x.shape={jnp.shape(x)}."
        )


def check_owner(
    params: object, shapes: dict[str, tuple[int, ...]], argument: str = "params"
) -> None:
    """Raise unless the named arrays of `params` have the shapes of this network's."""
    for name, shape in shapes.items():
        if not hasattr(params, name):
            raise TypeError(
                f"`{argument}` must be of this network, with arrays {', '.join(shapes)}, "
                f"got {type(params).__name__}, which has no {name}."
            )
        found = jnp.shape(getattr(params, name))
        if found != shape:
            raise ValueError(
                f"`{argument}` must be of this network, with {name} of shape {shape}, "
                f"got {argument}.{name}.shape={found}."
            )
