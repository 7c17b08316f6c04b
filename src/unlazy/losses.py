# SPDX-License-Identifier: Apache-2.0
"""Losses of one prediction and one label, with their derivatives and the bounds on them.

Conventions of all rooms. A loss called "squared" is the square. Where there is a half, the name or
the first line says so ("half-squared", `train.SquaredError`). So a penalty of strength lambda
weighs the same in `papers.nichani2022.RegularizedRisk(loss="squared")` and in
`papers.nichani2022.fit_expansion`. The factor of a penalty is `strength`; several, in the paper's
order, are `strengths`; a setting that takes some of them by the paper's index has `lam1` and
`lam3`, or `lam_w` and `lam_v`. A `penalty` is a function.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from unlazy.core.checks import as_array, check_count, check_name, is_known
from unlazy.core.entries import entry

Values = Float[Array, "*shape"]


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
        z, y = _as_floats(z, "z"), _as_floats(y, "y")
        check_shapes(z, y)
        return self.function(z, y)


def _as_floats(value: ArrayLike, name: str) -> Array:
    if not isinstance(value, Array):
        value = as_array(value, name)
    is_float = jnp.issubdtype(value.dtype, jnp.floating)
    return jnp.asarray(value) if is_float else jnp.asarray(value, float)


@entry
def check_shapes(z: ArrayLike, y: ArrayLike, name: str = "y", of: str = "`z`") -> None:
    """Raise unless labels have the shape of predictions: (n, 1) would broadcast against (n,).

    One number is a label for all of them.
    """
    if np.ndim(y) and np.shape(z) != np.shape(y):
        raise ValueError(
            f"`{name}` must have the shape of {of}, {np.shape(z)}, "
            f"got {name}.shape={np.shape(y)}. Reshape one of them."
        )


@entry
def pointwise(loss: "str | PointwiseLoss") -> PointwiseLoss:
    r"""The loss of that name; a loss is returned unchanged.

    - "logistic": $\log(1 + e^{-yz})$, for labels $\pm 1$.
    - "pseudo-huber": $\sqrt{1 + (z - y)^2} - 1$, quadratic near the label and linear far from it.
    - "log-cosh": $\log \cosh(z - y)$, likewise; all its derivatives are bounded by 1.
    - "squared": $(z - y)^2$, and "half-squared": $\frac12 (z - y)^2$, the name says which. Neither
      is Lipschitz: outside what the paper's theory covers.

    Source: BL-5, arXiv:1910.01619 section 2; for "log-cosh" NB-36, arXiv:2206.03688.

    Args:
        loss: a name, or a loss.

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


@entry
def check_targets(loss: str | PointwiseLoss, y: ArrayLike, name: str = "y") -> None:
    """Raise where labels are known and the loss is not for them: 0 and 1 with the logistic loss."""
    if pointwise(loss).signs:
        check_signs(y, name, loss="the logistic loss")


@entry
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


def _logistic_1(z: Values, y: Values) -> Values:
    return -y * jax.nn.sigmoid(-y * z)


def _logistic_2(z: Values, y: Values) -> Values:
    return y**2 * jax.nn.sigmoid(y * z) * jax.nn.sigmoid(-y * z)


def _logistic_3(z: Values, y: Values) -> Values:
    p = jax.nn.sigmoid(y * z)
    return y**3 * p * jax.nn.sigmoid(-y * z) * (1 - 2 * p)


def _pseudo_huber(z: Values, y: Values) -> Values:
    u = z - y
    # Not sqrt(1 + u^2) - 1, which cancels near the label.
    return u**2 / (1 + jnp.hypot(jnp.ones_like(u), u))


def _pseudo_huber_1(z: Values, y: Values) -> Values:
    u = z - y
    return u / jnp.hypot(jnp.ones_like(u), u)


def _pseudo_huber_2(z: Values, y: Values) -> Values:
    return (1 + (z - y) ** 2) ** -1.5


def _pseudo_huber_3(z: Values, y: Values) -> Values:
    u = z - y
    return -3 * u * (1 + u**2) ** -2.5


def _log_cosh(z: Values, y: Values) -> Values:
    u = z - y
    # Near the label |u| + log(1 + e^{-2|u|}) - log 2 cancels, and |u| hides a second derivative
    # from automatic differentiation; far from it tanh is 1.
    near = -jnp.log1p(-(jnp.tanh(jnp.clip(u, -1, 1)) ** 2)) / 2
    far = jnp.abs(u) + jnp.log1p(jnp.exp(-2 * jnp.abs(u))) - math.log(2)
    return jnp.where(jnp.abs(u) < 1, near, far)


def _log_cosh_2(z: Values, y: Values) -> Values:
    # Not 1 - tanh^2, which is rounding far from the label.
    p = jax.nn.sigmoid(2 * (z - y))
    return 4 * p * jax.nn.sigmoid(-2 * (z - y))


_LOSSES = {
    "logistic": PointwiseLoss(
        # sup |l'''| is at p = 1/2 +- 1/sqrt(12).
        *("logistic", 1.0, 1 / 4, 1 / (6 * 3**0.5), True),
        (lambda z, y: jax.nn.softplus(-y * z), _logistic_1, _logistic_2, _logistic_3),
    ),
    "pseudo-huber": PointwiseLoss(
        # sup |l'''| = 3 u (1 + u^2)^-5/2 is at u = 1/2.
        *("pseudo-huber", 1.0, 1.0, 1.5 * 1.25**-2.5, False),
        (_pseudo_huber, _pseudo_huber_1, _pseudo_huber_2, _pseudo_huber_3),
    ),
    "log-cosh": PointwiseLoss(
        # sup |l'''| = 2 tanh u / cosh^2 u is at tanh^2 u = 1/3.
        *("log-cosh", 1.0, 1.0, 4 / (3 * 3**0.5), False),
        (
            _log_cosh,
            lambda z, y: jnp.tanh(z - y),
            _log_cosh_2,
            lambda z, y: -2 * jnp.tanh(z - y) * _log_cosh_2(z, y),
        ),
    ),
    "squared": PointwiseLoss(
        *("squared", float("inf"), 2.0, 0.0, False),
        (
            lambda z, y: (z - y) ** 2,
            lambda z, y: 2 * (z - y),
            lambda z, y: 2 * jnp.ones_like(z - y),
            lambda z, y: jnp.zeros_like(z - y),
        ),
    ),
    "half-squared": PointwiseLoss(
        *("half-squared", float("inf"), 1.0, 0.0, False),
        (
            lambda z, y: (z - y) ** 2 / 2,
            lambda z, y: z - y,
            lambda z, y: jnp.ones_like(z - y),
            lambda z, y: jnp.zeros_like(z - y),
        ),
    ),
}
