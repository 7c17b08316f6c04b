# SPDX-License-Identifier: Apache-2.0
"""Data and losses of the learners' own algorithms."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_inputs, check_labels
from unlazy.losses import PointwiseLoss, check_shapes, pointwise

Data = tuple[Float[Array | np.ndarray, "n d"], Float[Array | np.ndarray, "n *c"]]


def check_learner_data(data: Data, outputs: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
    """The samples and labels in that dtype; raise unless they fit a network with such outputs."""
    x, y = data
    check_inputs(x, allow_zero_rows=True)
    check_labels(y, np.shape(x)[0])
    expected = (np.shape(x)[0], *outputs)
    if np.shape(y) != expected:
        raise ValueError(
            f"`y` must have the shape of the network's outputs, {expected}, "
            f"got y.shape={np.shape(y)}."
        )
    return jnp.asarray(x, dtype), jnp.asarray(y, dtype)


def mean_loss(
    loss: PointwiseLoss, outputs: Float[Array, "n *c"], y: Float[Array, "n *c"]
) -> Float[Array, ""]:
    r"""The mean over samples of the loss of all outputs of each.

    Pseudo-Huber is that of the residuals' norm, $\sqrt{1 + \|f - y\|^2} - 1$, which is 1-Lipschitz
    in the k outputs together, and so what LG assumes; a sum over outputs would be so with
    $\sqrt k$ only. Other losses are such sums.
    """
    check_shapes(outputs, y, of="the network's outputs")
    several = outputs.ndim == 2 and outputs.shape[1] > 1
    if several and loss == pointwise("pseudo-huber"):
        squares = jnp.sum((outputs - y) ** 2, axis=1)
        return jnp.mean(squares / (1 + jnp.sqrt(1 + squares)))  # not sqrt - 1, which cancels
    losses = loss(outputs, y)
    return jnp.mean(losses if losses.ndim == 1 else jnp.sum(losses, axis=1))
