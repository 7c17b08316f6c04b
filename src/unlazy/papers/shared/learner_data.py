# SPDX-License-Identifier: Apache-2.0
"""Training data and mean loss of the learners' own algorithms."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_inputs, check_labels
from unlazy.losses import check_shapes, pointwise
from unlazy.papers.shared.learner_losses import CrossEntropy, LearnerLoss

Data = tuple[Float[Array | np.ndarray, "n d"], Float[Array | np.ndarray, "n *c"]]


def check_learner_data(data: Data, outputs: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
    """The samples and labels in that dtype, checked to fit a network with such outputs."""
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
    loss: LearnerLoss, outputs: Float[Array, "n *c"], y: Float[Array, "n *c"]
) -> Float[Array, ""]:
    r"""The mean over samples of the loss of each, summed over its outputs.

    Pseudo-Huber is not summed: it is that of the residuals' norm, $\sqrt{1 + \|f - y\|^2} - 1$,
    which is 1-Lipschitz in the k outputs together, as LG assumes. A sum has $\sqrt k$. Nor is the
    cross-entropy, which is of all outputs.
    """
    if isinstance(loss, CrossEntropy):
        return jnp.mean(loss(outputs, y))
    check_shapes(outputs, y, of="the network's outputs")
    several = outputs.ndim == 2 and outputs.shape[1] > 1
    if several and loss == pointwise("pseudo-huber"):
        squares = jnp.sum((outputs - y) ** 2, axis=1)
        return jnp.mean(squares / (1 + jnp.sqrt(1 + squares)))  # not sqrt - 1, which cancels
    losses = loss(outputs, y)
    return jnp.mean(losses if losses.ndim == 1 else jnp.sum(losses, axis=1))
