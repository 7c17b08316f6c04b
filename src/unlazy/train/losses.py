# SPDX-License-Identifier: Apache-2.0
"""Losses of a model on a batch `(x, y)`, as functions `loss(params, batch)`."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.core.checks import calling, check_finite
from unlazy.core.entries import entry
from unlazy.losses import PointwiseLoss, check_shapes, pointwise

Model = Callable[[Any, Float[Array, "n ..."]], Float[Array, "n *c"]]


class SquaredError(eqx.Module):
    r"""Half the sum of squared errors, $\frac12 \sum_i (f(x_i) - y_i)^2$: a sum, not a mean.

    A learning rate $\eta$ here is $n\eta$ for the mean $\frac1{2n}\sum_i$ and $n\eta/2$ for the
    mean of squares.

    Two losses of the same model are equal, so that training twice compiles once.

    Source: AR-3, arXiv:1901.08584 eq. (2).
    """

    model: Model

    @entry
    def __call__(self, params: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        """The loss on the batch `(x, y)`."""
        x, y = batch
        with calling("model", "these `params` and the inputs of this `batch`"):
            outputs = self.model(params, x)
        check_shapes(outputs, y, of="the model's outputs")
        return jnp.sum((outputs - y) ** 2) / 2


class MeanLoss(eqx.Module):
    r"""The mean of a pointwise loss over the batch.

    $$L(\theta) = \frac1n \sum_i \ell(f_\theta(x_i), y_i)$$

    Two losses of the same model and kind are equal, so that training twice compiles once.

    Source: BL-5 and BL-11, arXiv:1910.01619 section 2.

    Args:
        model: `model(params, x)`.
        loss: a name for `losses.pointwise`, such as "logistic", or a loss.

    Example:
        >>> loss = MeanLoss(lambda w, x: x @ w, "logistic")
        >>> print(loss(jnp.zeros(2), (jnp.eye(2), jnp.array([1.0, -1.0]))))
        0.6931472
    """

    model: Model
    loss: PointwiseLoss = eqx.field(static=True, converter=pointwise, default="logistic")

    @entry
    def __call__(self, params: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        """The loss on the batch `(x, y)`."""
        x, y = batch
        with calling("model", "these `params` and the inputs of this `batch`"):
            outputs = self.model(params, x)
        check_shapes(outputs, y, of="the model's outputs")
        return jnp.mean(pointwise(self.loss)(outputs, y))


class Regularized(eqx.Module):
    r"""A loss plus a penalty on the parameters, $L(\theta) + \lambda R(\theta)$.

    Args:
        loss: `loss(params)` or `loss(params, batch)`, or a stochastic one with a key last.
        penalty: `penalty(params)`, a scalar, such as `escape.regularizer`.
        strength: $\lambda$.

    Example:
        >>> loss = Regularized(lambda w, batch: jnp.sum(batch @ w), lambda w: jnp.sum(w**2), 0.5)
        >>> print(loss(jnp.ones(2), jnp.eye(2)))
        3.0
    """

    loss: Callable[..., Float[Array, ""]]
    penalty: Callable[[Any], Float[Array, ""]]
    strength: int | float = eqx.field(static=True)

    @entry
    def __check_init__(self):
        check_finite(self.strength, "strength")

    @entry
    def __call__(self, params: Any, *batch_and_key: Any) -> Array:
        """The regularised loss on the batch, if there is one."""
        return self.loss(params, *batch_and_key) + self.strength * self.penalty(params)
