# SPDX-License-Identifier: Apache-2.0
"""The Taylor terms of a two-layer network, written out."""

import math
from collections.abc import Callable

import jax.numpy as jnp
import jax.scipy.stats.norm as gaussian
from jaxtyping import Array, Float

from unlazy.activations.base import Activation
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.taylor import recurrences
from unlazy.taylor.series import Series, at, product, scaled, times, total, trimmed


def two_layer_terms(
    net: TwoLayer,
    params: TwoLayerParams,
    delta: TwoLayerParams,
    x: Float[Array, "n d"],
    order: int,
) -> tuple[Series, Array | None]:
    r"""All terms at the cost of two products with `x`, for any movement of both layers.

    $$f^{(k)}(x) = \frac{1}{\sqrt m} \sum_r \Big( a_r \frac{\sigma^{(k)}(w_r^\top x)}{k!}
    (dw_r^\top x)^k + da_r \frac{\sigma^{(k-1)}(w_r^\top x)}{(k-1)!} (dw_r^\top x)^{k-1} \Big)$$

    The fractions come from recurrences: the derivatives of a sigmoid or a Gaussian, as polynomials,
    cancel to nothing at order 24.

    Source: BL-8, arXiv:1910.01619 section 3, where `a` does not move.

    Returns:
        The series, and whether a pre-activation that moves is exactly at a kink of that order, or
        None where the activation has none.
    """
    z0 = net.preactivations(params, x)
    z = None if delta.W is None else x @ delta.W.T
    hidden = _hidden_terms(net.activation, z0, z, order)
    scale = 1 / math.sqrt(net.width)
    result = []
    for k in range(order + 1):
        still = _applied(hidden[k], params.a)
        moved = _applied(hidden[k - 1], delta.a) if k else None
        result.append(scaled(scale, total([still, moved])))
    return trimmed(result), _at_kink(net.activation, z0, z, order)


def _applied(h: Array | None, a: Array | None) -> Array | None:
    return None if h is None or a is None else h @ a


def _hidden_terms(sigma: Activation, z0: Array, z: Array | None, order: int) -> list[Array | None]:
    if z is None:
        return [sigma(z0)] + [None] * order
    recurrence = _RECURRENCES.get(sigma.name)
    if recurrence is None:
        return _by_derivatives(sigma, z0, z, order)
    series = recurrence((z0 - sigma.shift if sigma.shift else z0, z), order)
    return [sigma(z0), *(at(series, k) for k in range(1, order + 1))]


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


def _at_kink(sigma: Activation, z0: Array, z: Array | None, order: int) -> Array | None:
    if z is None or order < _smooth_to(sigma, order):
        return None
    return jnp.any((z0 - sigma.shift == 0) & (z != 0))


def _smooth_to(sigma: Activation, order: int) -> int | float:
    """The last derivative that is defined, if that is at most the order; else infinity."""
    for k in range(order + 2):
        try:
            sigma.derivative(k)
        except ValueError:
            return k - 1
    return math.inf
