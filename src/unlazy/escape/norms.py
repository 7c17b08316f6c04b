# SPDX-License-Identifier: Apache-2.0
"""The (2, p) norm: the l_p norm of the Euclidean norms of the rows."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.entries import entry


@entry
def norm_2p(W: Float[Array | np.ndarray, "m d"], p: int | float) -> Float[Array, ""]:
    r"""The (2, p) norm of a matrix with one neuron per row.

    $$\|W\|_{2,p} = \Big(\sum_r \|w_r\|_2^p\Big)^{1/p}$$

    p = 2 is the Frobenius norm, p = inf the largest row norm. At p = 4 a movement of $m^{-1/4}$ for
    each of $m$ neurons has norm 1. Where the norm has a corner (at W = 0, and at a row of zeros
    when p = 1) its gradient is the subgradient 0 for that row.

    Source: BL-6, arXiv:1910.01619 section 2.

    Example:
        >>> print(norm_2p(jnp.array([[3.0, 4.0], [0.0, 0.0]]), 4))
        5.0
    """
    if math.isnan(p) or p < 1:
        raise ValueError(f"`p` must be at least 1, got p={p}. Below 1 it is not a norm.")
    W = jnp.asarray(W)
    if W.ndim != 2 or 0 in W.shape:
        raise ValueError(f"`W` must have shape (m, d), one neuron a row, got W.shape={W.shape}.")
    # Scaled to largest entry 1, so that no power overflows or vanishes. The norm does not depend on
    # the scale, hence neither does its gradient, and none flows through it.
    largest = jax.lax.stop_gradient(jnp.max(jnp.abs(W)))
    scale = jnp.where(largest > 0, largest, 1)
    squares = jnp.sum((W / scale) ** 2, axis=1)
    if math.isinf(p):
        return scale * _safe_power(jnp.max(squares), 0.5)
    return scale * _safe_power(jnp.sum(_safe_power(squares, p / 2)), 1 / p)


def _safe_power(base: Float[Array, "*shape"], exponent: float) -> Float[Array, "*shape"]:
    # At 0 a power below 1 has an infinite slope, and 0 * inf would make the whole gradient nan.
    # Not where base > 0, which would make nan a norm of zero.
    inside = jnp.where(base == 0, 1, base)
    return jnp.where(base == 0, 0, inside**exponent)
