# SPDX-License-Identifier: Apache-2.0
"""The Taylor terms of a two-layer network, written out."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.activations import Activation
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.taylor.series import Series, scaled, times, total, trimmed


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
    terms: list[Array | None] = [sigma(z0)]
    last, power = _smooth_to(sigma, order), z
    for k in range(1, order + 1):
        # Beyond its kink's order, a piece of a polynomial has no derivatives left.
        slope = sigma.derivative(k)(z0) if z is not None and k <= last else None
        terms.append(times(scaled(1 / math.factorial(k), slope), power))
        power = times(power, z)
    return terms


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
