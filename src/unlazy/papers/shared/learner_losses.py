# SPDX-License-Identifier: Apache-2.0
"""The losses of the learners' own algorithms: pointwise ones, and cross-entropy of k classes."""

import math
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from unlazy.core.checks import is_known
from unlazy.core.entries import entry
from unlazy.losses import PointwiseLoss, check_shapes, check_targets, pointwise


@dataclass(frozen=True)
class CrossEntropy:
    r"""The cross-entropy of k outputs with the probabilities of k classes, per sample.

    $$\ell(f, y) = \log \sum_r e^{f_r} - \sum_r y_r f_r$$

    for rows y of probabilities, such as one-hot rows. It is non-negative, convex,
    $\sqrt 2$-Lipschitz and $\frac12$-smooth in f, and it is $\log k$ at f = 0. The paper counts it
    among the losses that are 1-Lipschitz with $\ell(0, y) \le 1$: this holds for the loss over
    $\sqrt 2$ and k = 2, and over $\max(\sqrt 2, \log k)$ for any k.

    Source: arXiv:1811.04918 section 2.

    Example:
        >>> print(CrossEntropy()(jnp.zeros((1, 4)), jnp.eye(4)[:1]).round(4))
        [1.3863]
    """

    name: str = "cross-entropy"
    lipschitz: float = math.sqrt(2)
    curvature: float = 0.5

    @entry
    def __call__(self, outputs: Float[Array, "n k"], y: Float[Array, "n k"]) -> Float[Array, " n"]:
        """The loss of each sample."""
        check_shapes(outputs, y, of="the network's outputs")
        return jax.nn.logsumexp(outputs, axis=1) - jnp.sum(y * outputs, axis=1)


LearnerLoss = PointwiseLoss | CrossEntropy


def learner_loss(loss: str | LearnerLoss) -> LearnerLoss:
    """The loss of that name: "cross-entropy", or one of `losses.pointwise`."""
    if isinstance(loss, CrossEntropy):
        return loss
    return CrossEntropy() if loss == "cross-entropy" else pointwise(loss)


def check_learner_targets(loss: str | LearnerLoss, y: ArrayLike, name: str = "y") -> None:
    """Raise where labels are known and the loss is not for them."""
    found = learner_loss(loss)
    if isinstance(found, PointwiseLoss):
        return check_targets(found, y, name)
    if np.ndim(y) != 2 or np.shape(y)[1] < 2:
        raise ValueError(
            f"`{name}` must have shape (n, k) with k >= 2 classes for the cross-entropy, "
            f"got {name}.shape={np.shape(y)}. Pass one-hot rows, such as jnp.eye(k)[classes]."
        )
    if not is_known(y):
        return None
    rows = np.asarray(y, np.float64)
    wrong = np.flatnonzero((rows.min(axis=1) < 0) | (np.abs(rows.sum(axis=1) - 1) > 1e-4))
    if wrong.size:
        raise ValueError(
            f"`{name}` must have rows of probabilities for the cross-entropy, got entries from "
            f"{rows[wrong[0]].min():.6g} on and a sum of {rows[wrong[0]].sum():.6g} in row "
            f"{wrong[0]}. Pass one-hot rows, such as jnp.eye(k)[classes]."
        )
    return None


def loss_bounds(loss: LearnerLoss, outputs: int) -> tuple[float, float]:
    """The Lipschitz constant and the curvature of `mean_loss` in the outputs of one sample."""
    jointly = isinstance(loss, CrossEntropy) or loss == pointwise("pseudo-huber")
    factor = 1.0 if jointly else math.sqrt(outputs)
    return loss.lipschitz * factor, loss.curvature
