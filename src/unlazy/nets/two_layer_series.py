# SPDX-License-Identifier: Apache-2.0
"""The Taylor series of a hidden layer in its pre-activations, written out for every activation."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import jax.scipy.stats.norm as gaussian
from jaxtyping import Array

from unlazy.activations import Activation
from unlazy.special import recurrences
from unlazy.special.array_series import Series, at, product, scaled, times, trimmed


def hidden_series(sigma: Activation, z0: Array, z: Array | None, order: int) -> list[Array | None]:
    r"""The terms $\sigma^{(k)}(z_0)\, z^k / k!$ for k = 0 to `order`; None where one is zero.

    They come from recurrences: the derivatives of a sigmoid or a Gaussian, as polynomials, cancel
    to nothing at order 24. `z` None stands for no movement.
    """
    if z is None:
        return [sigma(z0)] + [None] * order
    recurrence = _RECURRENCES.get(sigma.name)
    if recurrence is None:
        return _by_derivatives(sigma, z0, z, order)
    series = recurrence((z0 - sigma.shift if sigma.shift else z0, z), order)
    return [sigma(z0), *(at(series, k) for k in range(1, order + 1))]


def at_kink(sigma: Activation, z0: Array, z: Array | None, order: int) -> Array | None:
    """Whether a pre-activation that moves is exactly at a kink of that order.

    None where the activation has no such kink.
    """
    if z is None or order < _smooth_to(sigma, order):
        return None
    return jnp.any((z0 - sigma.shift == 0) & (z != 0))


def _by_derivatives(sigma: Activation, z0: Array, z: Array, order: int) -> list[Array | None]:
    terms: list[Array | None] = [sigma(z0)]
    last, power = min(_smooth_to(sigma, order), _degree(sigma)), z
    for k in range(1, order + 1):
        # Beyond its degree or its kink's order, a polynomial's piece has no derivatives left; a
        # zero in their place would meet a power that overflows.
        slope = sigma.derivative(k)(z0) if k <= last else None
        terms.append(times(scaled(1 / math.factorial(k), slope), power))
        power = power * z
    return terms


def _degree(sigma: Activation) -> int | float:
    if sigma.name == "polynomial":
        return len(sigma.coefficients) - 1
    return {"identity": 1, "quadratic": 2}.get(sigma.name, math.inf)


def _softplus(z: Series, order: int) -> Series:
    return recurrences.with_slope(z, z[0], recurrences.logistic(z, order - 1), order)


def _gelu(z: Series, order: int) -> Series:
    """Z times the Gaussian distribution function, whose slope is the density."""
    density = recurrences.exp(trimmed(scaled(-0.5, c) for c in product(z, z, order)), order)
    slope = trimmed(scaled(1 / math.sqrt(2 * math.pi), c) for c in density)
    return product(z, recurrences.with_slope(z, gaussian.cdf(z[0]), slope, order), order)


# The first coefficient is not used: it is the activation itself.
_RECURRENCES: dict[str, Callable[[Series, int], Series]] = {
    "tanh": recurrences.tanh,
    "sigmoid": recurrences.logistic,
    "softplus": _softplus,
    "gelu": _gelu,
    "erf": recurrences.erf,
    "sin": recurrences.sin,
    "cos": recurrences.cos,
    "exp": recurrences.exp,
}


def _smooth_to(sigma: Activation, order: int) -> int | float:
    """The last derivative that is defined, if that is at most the order; else infinity."""
    for k in range(order + 2):
        try:
            sigma.derivative(k)
        except ValueError:
            return k - 1
    return math.inf
