# SPDX-License-Identifier: Apache-2.0
"""A loss as a function of the outputs and the labels, for models from any library."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.checks import calling
from unlazy.losses import PointwiseLoss, check_shapes, check_targets, pointwise

OutputLoss = str | PointwiseLoss | Callable[[Any, Any], Any]
"""The name of a pointwise loss, whose mean is taken, or a function of (outputs, y) to a scalar."""


@dataclass(frozen=True)
class MeanOf:
    """The mean of a pointwise loss over all entries of the outputs."""

    loss: PointwiseLoss

    def __call__(self, outputs: Array, y: Array) -> Float[Array, ""]:
        """The loss of these outputs."""
        check_shapes(outputs, y, of="the model's outputs")
        return jnp.mean(self.loss(outputs, y))


def as_output_loss(loss: OutputLoss, y: Any) -> Callable[[Any, Any], Any]:
    """The loss as a function of the outputs and the labels; labels that it is not for raise."""
    if isinstance(loss, str | PointwiseLoss):
        check_targets(loss, y)
        return MeanOf(pointwise(loss))
    if not callable(loss):
        raise TypeError(
            "`loss` must be the name of a loss, such as 'half-squared', or a function of the "
            f"outputs and `y`, got loss={loss!r}."
        )
    return loss


def check_scalar_loss(loss: Callable[[Any, Any], Any], outputs: Any, y: Any) -> Any:
    """The loss at these outputs; raise unless it is one number."""
    with calling("loss", "the model's outputs and `y`"):
        value: Any = loss(outputs, y)
    found = getattr(value, "shape", () if isinstance(value, int | float) else None)
    if found is None or tuple(found):
        shape = f" of shape {tuple(found)}" if found else ""
        raise ValueError(
            "`loss` must give a scalar for the model's outputs and `y`, got "
            f"{type(value).__name__}{shape}. Take the mean over the samples."
        )
    return value
