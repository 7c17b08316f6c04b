# SPDX-License-Identifier: Apache-2.0
"""Losses of a model on a batch `(x, y)`, as hashable functions `loss(params, batch)`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float


@dataclass(frozen=True)
class SquaredError:
    r"""Half the sum of squared errors, $\frac12 \sum_i (f(x_i) - y_i)^2$: a sum, not a mean.

    A learning rate $\eta$ here is $n\eta$ for the mean $\frac1{2n}\sum_i$ and $n\eta/2$ for the
    mean of squares.

    Two losses of the same model are equal, so that training twice compiles once.

    Source: AR-3, arXiv:1901.08584 eq. (2).
    """

    model: Callable[[Any, Float[Array, "n ..."]], Float[Array, "n *c"]]

    def __call__(self, params: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        """The loss on the batch `(x, y)`."""
        x, y = batch
        outputs = self.model(params, x)
        if outputs.shape != jnp.shape(y):  # broadcasting (n,) against (n, 1) would train on noise
            raise ValueError(
                "`y` must have the shape of the model's outputs, "
                f"{outputs.shape}, got y.shape={jnp.shape(y)}."
            )
        return jnp.sum((outputs - y) ** 2) / 2
