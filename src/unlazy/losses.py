# SPDX-License-Identifier: Apache-2.0
"""Every loss: of one prediction, of a sample for the population bounds, and of a model on a batch.

A loss called "squared" is the square. Where there is a half, the name or the first line says so
("half-squared", `losses.SquaredError`).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from unlazy.core.checks import as_array, calling, check_count, check_finite, check_name, is_known
from unlazy.core.entries import entry
from unlazy.core.loss_calls import as_pair

__all__ = [
    "MeanLoss",
    "PointwiseLoss",
    "Regularized",
    "SquaredError",
    "absolute_loss",
    "clipped_absolute_loss",
    "pointwise",
    "ramp_loss",
    "zero_one_loss",
]


def __dir__() -> list[str]:
    return __all__


Values = Float[Array, "*shape"]
Sample = Float[Array | np.ndarray, "*shape"]
Model = Callable[[Any, Float[Array, "n ..."]], Float[Array, "n *c"]]


@dataclass(frozen=True)
class PointwiseLoss:
    r"""A loss $\ell(z, y)$ of a prediction `z` and a label `y`, convex and smooth in `z`.

    `derivatives` holds $\ell, \ell', \ell'', \ell'''$, all with respect to `z`, in closed form.
    `lipschitz`, `curvature` and `jerk` bound $|\ell'|$, $\ell''$ and $|\ell'''|$ over all `z` and
    all labels that the loss is for (`signs`: only plus and minus 1); `inf` where there is no bound.
    Two losses of one name are equal.

    Source: BL-5, arXiv:1910.01619 section 2.
    """

    name: str
    lipschitz: float
    curvature: float
    jerk: float
    signs: bool
    derivatives: tuple[Callable[[Values, Values], Values], ...] = field(compare=False, repr=False)

    @entry
    def __call__(self, z: Values, y: Values) -> Values:
        """The loss of each prediction; both arguments have one shape."""
        return self.derivative(0)(z, y)

    @entry
    def derivative(self, order: int) -> Callable[[Values, Values], Values]:
        """The derivative of that order, up to 3, with respect to the prediction."""
        check_count(order, "order", least=0)
        if order >= len(self.derivatives):
            raise ValueError(f"`order` must be from 0 to 3, got order={order}.")
        return _OfOneShape(self.derivatives[order])


@dataclass(frozen=True)
class _OfOneShape:
    """A function of predictions and labels that refuses to broadcast; equal where functions are."""

    function: Callable[[Values, Values], Values]

    def __call__(self, z: Values, y: Values) -> Values:
        z, y = jnp.asarray(_as_floats(z, "z")), jnp.asarray(_as_floats(y, "y"))
        check_shapes(z, y)
        return self.function(z, y)


def _as_floats(value: ArrayLike, name: str) -> Array | np.ndarray:
    if isinstance(value, Array) and not jnp.issubdtype(value.dtype, jnp.floating):
        return jnp.asarray(value, float)
    return as_array(value, name)


@entry
def pointwise(loss: "str | PointwiseLoss") -> PointwiseLoss:
    r"""The loss of that name; a loss is returned unchanged.

    - "logistic": $\log(1 + e^{-yz})$, for labels $\pm 1$.
    - "soft-hinge": $\log(1 + e^{1 - yz})$, likewise; 1.31 at output zero, above the 1 of theory.
    - "pseudo-huber": $\sqrt{1 + (z - y)^2} - 1$, quadratic near the label and linear far from it.
    - "log-cosh": $\log \cosh(z - y)$, likewise; all its derivatives are bounded by 1.
    - "squared": $(z - y)^2$, and "half-squared": $\frac12 (z - y)^2$, the name says which. Neither
      is Lipschitz: outside what the paper's theory covers.

    Source: BL-5, arXiv:1910.01619 section 2; for "log-cosh" NB-36, arXiv:2206.03688.

    Raises:
        UnknownNameError: there is no such loss.

    Example:
        >>> logistic = pointwise("logistic")
        >>> print(logistic(jnp.zeros(2), jnp.array([1.0, -1.0])))
        [0.6931472 0.6931472]
    """
    if isinstance(loss, PointwiseLoss):
        return loss
    check_name(loss, _LOSSES, "loss")
    return _LOSSES[loss]


def check_shapes(z: ArrayLike, y: ArrayLike, name: str = "y", of: str = "`z`") -> None:
    """Raise unless labels have the shape of predictions: (n, 1) would broadcast against (n,).

    A single number is a label for all predictions.
    """
    if np.ndim(y) and np.shape(z) != np.shape(y):
        raise ValueError(
            f"`{name}` must have the shape of {of}, {np.shape(z)}, "
            f"got {name}.shape={np.shape(y)}. Reshape one of them."
        )


def check_targets(loss: str | PointwiseLoss, y: ArrayLike, name: str = "y") -> None:
    """Raise where labels are known and the loss is not for them: 0 and 1 with the logistic loss."""
    if pointwise(loss).signs:
        check_signs(y, name, loss=f"the {pointwise(loss).name} loss")


def check_signs(y: ArrayLike, name: str = "y", *, loss: str) -> None:
    """Raise where labels are known and one of them is neither plus nor minus 1."""
    if not is_known(y):
        return
    values = np.unique(np.asarray(y, np.float64))
    if not set(values) <= {-1.0, 1.0}:
        raise ValueError(
            f"`{name}` must hold labels of plus and minus 1 for {loss}, got "
            f"{name} with {', '.join(f'{value:g}' for value in values[:4])}. For labels of 0 and 1 "
            f"pass 2 * {name} - 1."
        )


def _of_margin(name: str, offset: float = 0.0) -> PointwiseLoss:
    """The loss log(1 + exp(offset - y z)), with its three derivatives, for labels of 1 and -1."""

    def margin(z: Values, y: Values) -> Values:
        return y * z - offset if offset else y * z

    def curvature(z: Values, y: Values) -> Values:
        return y**2 * jax.nn.sigmoid(margin(z, y)) * jax.nn.sigmoid(-margin(z, y))

    derivatives = (
        lambda z, y: jax.nn.softplus(-margin(z, y)),
        lambda z, y: -y * jax.nn.sigmoid(-margin(z, y)),
        *(curvature, lambda z, y: y * curvature(z, y) * (1 - 2 * jax.nn.sigmoid(margin(z, y)))),
    )  # sup |l'''| is at sigmoid = 1/2 +- 1/sqrt(12)
    return PointwiseLoss(name, 1.0, 1 / 4, 1 / (6 * 3**0.5), True, derivatives)


def _pseudo_huber(u: Values) -> Values:
    # Not sqrt(1 + u^2) - 1, which cancels near the label.
    return u**2 / (1 + jnp.hypot(jnp.ones_like(u), u))


def _log_cosh(u: Values) -> Values:
    # Near the label |u| + log(1 + e^{-2|u|}) - log 2 cancels, and |u| hides a second derivative
    # from automatic differentiation; far from it tanh is 1.
    near = -jnp.log1p(-(jnp.tanh(jnp.clip(u, -1, 1)) ** 2)) / 2
    far = jnp.abs(u) + jnp.log1p(jnp.exp(-2 * jnp.abs(u))) - math.log(2)
    return jnp.where(jnp.abs(u) < 1, near, far)


def _log_cosh_2(u: Values) -> Values:
    # Not 1 - tanh^2, which is rounding far from the label.
    return 4 * jax.nn.sigmoid(2 * u) * jax.nn.sigmoid(-2 * u)


def _at_difference(function: Callable[[Values], Values], z: Values, y: Values) -> Values:
    return function(z - y)


def _of_difference(name: str, bounds: tuple[float, float, float], *of_u) -> PointwiseLoss:
    """A loss of u = z - y alone, from its value and its three derivatives as functions of u."""
    return PointwiseLoss(name, *bounds, False, tuple(partial(_at_difference, f) for f in of_u))


_LOSSES = {
    loss.name: loss
    for loss in (
        _of_margin("logistic"),
        _of_margin("soft-hinge", 1.0),
        _of_difference(
            # sup |l'''| = 3 u (1 + u^2)^-5/2 is at u = 1/2.
            *("pseudo-huber", (1.0, 1.0, 1.5 * 1.25**-2.5)),
            _pseudo_huber,
            lambda u: u / jnp.hypot(jnp.ones_like(u), u),
            lambda u: (1 + u**2) ** -1.5,
            lambda u: -3 * u * (1 + u**2) ** -2.5,
        ),
        _of_difference(
            # sup |l'''| = 2 tanh u / cosh^2 u is at tanh^2 u = 1/3.
            *("log-cosh", (1.0, 1.0, 4 / (3 * 3**0.5))),
            *(_log_cosh, jnp.tanh, _log_cosh_2, lambda u: -2 * jnp.tanh(u) * _log_cosh_2(u)),
        ),
        _of_difference(
            *("squared", (math.inf, 2.0, 0.0)),
            *(lambda u: u**2, lambda u: 2 * u, lambda u: 2 * jnp.ones_like(u), jnp.zeros_like),
        ),
        _of_difference(
            *("half-squared", (math.inf, 1.0, 0.0)),
            *(lambda u: u**2 / 2, lambda u: u, jnp.ones_like, jnp.zeros_like),
        ),
    )
}


@entry
def ramp_loss(u: Sample, y: Sample) -> Sample:
    r"""The ramp loss of each sample, for labels $\pm 1$: Lipschitz, and never below the error.

    $$\ell(u, y) = \min(1, \max(0, 1 - u y))$$

    In [0, 1], zero where $u = y = \pm 1$, and 1-Lipschitz in the prediction `u`: every bound of
    `papers.arora2019.population_loss` holds for its mean, and so for the error, `zero_one_loss`.
    The four losses of a sample return NumPy arrays if both arguments are, and raise if the shapes
    differ or, where they are for labels $\pm 1$, for other labels.

    Source: AR-18, arXiv:1901.08584 Corollary 5.2.

    Example:
        >>> print(ramp_loss(np.array([2.0, 0.5, -3.0]), np.ones(3)))
        [0.  0.5 1. ]
    """
    xp, u, y = _alike(u, y)
    check_signs(y, loss="the ramp loss")
    return xp.clip(1 - u * y, 0, 1)


@entry
def zero_one_loss(u: Sample, y: Sample) -> Sample:
    r"""Whether each sample is misclassified, as 0.0 or 1.0, for labels $\pm 1$.

    $$\ell(u, y) = 1\{u y \le 0\}$$

    A prediction of exactly 0 counts as an error, and so does nan: a network that has diverged
    predicts nothing.

    Source: AR-18, arXiv:1901.08584 Corollary 5.2.

    Example:
        >>> print(zero_one_loss(np.array([2.0, 0.0, -3.0]), np.ones(3)))
        [0. 1. 1.]
    """
    xp, u, y = _alike(u, y)
    check_signs(y, loss="the zero-one loss")
    # The sign, not the product, which rounds to zero where `u` is tiny; and not "at most 0", which
    # nan is not.
    return (~(xp.sign(u) * y > 0)).astype(u.dtype)


@entry
def absolute_loss(u: Sample, y: Sample) -> Sample:
    r"""The distance of each prediction from its label.

    $$\ell(u, y) = |u - y|$$

    Not clipped, hence not within [0, 1]: the population bounds hold for `clipped_absolute_loss`.

    Source: AR-18, arXiv:1901.08584 section 5 (the loss of Figure 2).

    Example:
        >>> print(absolute_loss(np.array([2.0, 0.5]), np.ones(2)))
        [1.  0.5]
    """
    xp, u, y = _alike(u, y)
    return xp.abs(u - y)


@entry
def clipped_absolute_loss(u: Sample, y: Sample) -> Sample:
    r"""The distance of each prediction from its label, at most 1.

    $$\ell(u, y) = \min(1, |u - y|)$$

    In [0, 1] and 1-Lipschitz for labels of any size, as the population bounds ask. For labels
    $\pm 1$ it is at least the ramp loss.

    Source: AR-18, arXiv:1901.08584 Theorem 5.1.

    Example:
        >>> print(clipped_absolute_loss(np.array([2.5, 0.5]), np.ones(2)))
        [1.  0.5]
    """
    xp, u, y = _alike(u, y)
    return xp.minimum(xp.abs(u - y), xp.ones((), u.dtype))


def _alike(u: ArrayLike, y: ArrayLike):
    """The module that computes with both, and both in one dtype."""
    xp = jnp if isinstance(u, jax.Array) or isinstance(y, jax.Array) else np
    u, y = _as_floats(u, "u"), _as_floats(y, "y")
    check_shapes(u, y, of="`u`")
    dtype = max(u.dtype, y.dtype, key=lambda dtype: dtype.itemsize)
    if xp is jnp:
        dtype = jax.dtypes.canonicalize_dtype(dtype)
    return xp, xp.asarray(u, dtype), xp.asarray(y, dtype)


def _outputs(model: Model, params: Any, x: Array, y: Array) -> Array:
    with calling("model", "these `params` and the inputs of this `batch`"):
        outputs = model(params, x)
    check_shapes(outputs, y, of="the model's outputs")
    return outputs


class SquaredError(eqx.Module):
    r"""Half the sum of squared errors, $\frac12 \sum_i (f(x_i) - y_i)^2$: a sum, not a mean.

    A learning rate $\eta$ here is $n\eta$ for the mean $\frac1{2n}\sum_i$ and $n\eta/2$ for the
    mean of squares. Two losses of the same model are equal, so that training twice compiles once.

    Source: AR-3, arXiv:1901.08584 eq. (2).
    """

    model: Model

    @entry
    def __call__(self, params: Any, batch: tuple[Array, Array]) -> Float[Array, ""]:
        """The loss on the batch `(x, y)`."""
        x, y = as_pair(batch)
        return jnp.sum((_outputs(self.model, params, x, y) - y) ** 2) / 2


class MeanLoss(eqx.Module):
    r"""The mean of a pointwise loss of `model(params, x)` over the batch.

    $$L(\theta) = \frac1n \sum_i \ell(f_\theta(x_i), y_i)$$

    `loss` is a `PointwiseLoss` or its name. Two losses of the same model and kind are equal, so
    that training twice compiles once.

    Source: BL-5 and BL-11, arXiv:1910.01619 section 2.

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
        x, y = as_pair(batch)
        return jnp.mean(pointwise(self.loss)(_outputs(self.model, params, x, y), y))


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
        with calling("loss", "these `params` and what else was given, `batch_and_key`"):
            value = self.loss(params, *batch_and_key)
        with calling("penalty", "these `params`"):
            return value + self.strength * self.penalty(params)
