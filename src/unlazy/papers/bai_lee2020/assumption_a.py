# SPDX-License-Identifier: Apache-2.0
"""Assumption A: the constants of an activation that vanishes to third order at 0."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.activations import Activation
from unlazy.core.checks import check_finite
from unlazy.core.entries import entry
from unlazy.core.float64 import float64

Constants = tuple[int | float, int | float, int | float]


class Smoothness(NamedTuple):
    """Constants of an activation, see `smoothness`."""

    C1: float
    C2: float
    C3: float


@entry
def smoothness(activation: Activation) -> Smoothness:
    r"""The constants of an activation that vanishes to third order at 0.

    $$|\sigma'(t)| \le C_1 t^2, \qquad |\sigma''(t)| \le C_2 |t|, \qquad
    |\sigma''(t) - \sigma''(t')| \le C_3 |t - t'|$$

    Among the activations of this library these have them: relu3, $t_+^3/6$; rectified_power 3,
    which is the paper's $t_+^3$; both of them with a positive shift too; and the multiples of
    $t^3$. For any other the functions of this room take `constants`, a `Smoothness` of your own:
    higher powers have constants on every bounded range.

    Source: BL-4, arXiv:1910.01619 Assumption A.

    Example:
        >>> import unlazy as ul
        >>> smoothness(ul.activation("relu3"))
        Smoothness(C1=0.5, C2=1.0, C3=1.0)
        >>> smoothness(ul.activation("rectified_power", power=3))
        Smoothness(C1=3.0, C2=6.0, C3=6.0)
    """
    powers = dict(enumerate(activation.coefficients))
    # A shift to the right keeps the constants: (t - b)_+ is at most |t|.
    if activation.name == "relu3" and activation.shift >= 0:
        return Smoothness(0.5, 1.0, 1.0)
    if activation.name == "rectified_power" and powers == {0: 3.0} and activation.shift >= 0:
        return Smoothness(3.0, 6.0, 6.0)
    cubic = abs(powers.pop(3, 0.0))
    powers.pop(0, None)  # a constant changes no derivative
    if activation.name == "polynomial" and not any(powers.values()) and not activation.shift:
        return Smoothness(3 * cubic, 6 * cubic, 6 * cubic)
    raise ValueError(
        "`activation` must vanish to third order at 0 with a Lipschitz second derivative, "
        f"got activation={activation}. Use 'relu3', or pass `constants` that hold where the "
        "network is evaluated."
    )


def supplied_smoothness(
    activation: Activation,
    constants: Constants | None,
    Z0: Float64[Array | np.ndarray, "n m"],
    reach: Float64[Array | np.ndarray, "n #m"],
) -> Smoothness:
    """The constants of the activation, or those supplied unless the pre-activations refute them.

    `Z0` are the pre-activations at the start and `reach` how far each may move. Supplied constants
    are tried at `Z0` and along the reach, so that a wrong one is an error and not a false bound.
    """
    if constants is None:
        return smoothness(activation)
    for value in constants:
        check_finite(value, "constants")
    if len(constants) != 3 or min(constants) < 0:
        raise ValueError(
            "`constants` must be the three numbers C1, C2, C3, none of them negative, "
            f"got constants={tuple(constants)}."
        )
    supplied = Smoothness(*map(float, constants))
    with float64():
        needed = _least_constants(activation, jnp.asarray(Z0), jnp.asarray(reach))
    for name, value, least in zip(supplied._fields, supplied, needed, strict=True):
        if value < least * (1 - 1e-9):  # the constant that holds with equality may round below
            raise ValueError(
                f"`constants` must have {name} of at least {least:.6g}, which {activation.name} "
                f"needs at the pre-activations of these inputs, got {name}={value:.6g}."
            )
    return supplied


def _least_constants(sigma: Activation, Z0: Array, reach: Array) -> tuple[float, float, float]:
    """The smallest constants that the pre-activations leave possible."""
    first, second = sigma.derivative(1), sigma.derivative(2)
    at_start = second(Z0)
    moves = [step * reach + 0 * Z0 for step in (-1.0, -0.5, 0.5, 1.0)]
    change = max(_largest_ratio(second(Z0 + move) - at_start, move) for move in moves)
    return _largest_ratio(first(Z0), Z0**2), _largest_ratio(at_start, Z0), change


def _largest_ratio(values: Array, sizes: Array) -> float:
    """The largest |value| / |size|; 0 / 0 counts as 0, and more over 0 as infinity."""
    top, bottom = np.abs(np.asarray(values)), np.abs(np.asarray(sizes))
    ratios = np.divide(top, bottom, out=np.where(top > 0, np.inf, 0.0), where=bottom > 0)
    return float(np.max(ratios))
