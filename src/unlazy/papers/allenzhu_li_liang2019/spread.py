# SPDX-License-Identifier: Apache-2.0
"""Whether a movement is spread over the neurons, and the penalty that keeps it so."""

import math

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_finite, is_known
from unlazy.core.entries import entry
from unlazy.nets import ThreeLayerParams

Matrix = Float[Array | np.ndarray, "m d"]


@entry
def spread_ratio(W: Matrix) -> float:
    r"""How unevenly the rows of a matrix share its norm: 1 if all alike, m if one has it all.

    $$\frac{m \|W\|_{2,4}^4}{\|W\|_F^4} = \frac{m \sum_i r_i^2}{(\sum_i r_i)^2},
    \qquad r_i = \|w_i\|^2$$

    A Gaussian matrix with d columns has a ratio near $1 + 2/d$.

    Source: LG-14, arXiv:1811.04918 Figure 3 (b).

    Raises:
        ValueError: `W` is zero or not finite, or has no rows.

    Example:
        >>> spread_ratio(jnp.eye(3)), spread_ratio(jnp.array([[1.0], [0.0], [0.0]]))
        (1.0, 3.0)
    """
    W = np.asarray(W, np.float64)
    if W.ndim != 2 or W.size == 0:
        raise ValueError(f"`W` must have shape (m, d) with m, d >= 1, got W.shape={W.shape}.")
    check_finite(W, "W")
    largest = np.max(np.abs(W))
    if largest == 0:
        raise ValueError("`W` must not be zero, got a matrix of zeros, which has no spread.")
    r = np.sum((W / largest) ** 2, axis=1)  # scaled, so that no fourth power underflows
    return float(len(r) * np.sum(r**2) / np.sum(r) ** 2)


@entry
def three_layer_regularizer(
    delta: ThreeLayerParams,
    *,
    lam_w: int | float,
    lam_v: int | float,
    alpha: int | float = 2,
    scale: int | float | Float[Array, ""] = 1.0,
) -> Float[Array, ""]:
    r"""The penalty on a movement of both hidden layers, which keeps that of the first spread.

    $$R(\sqrt\lambda W', \sqrt\lambda V') = \lambda_v \lambda \|V'\|_F^2
    + \lambda_w \lambda^{1 + \alpha/2} \|W'\|_{2,2+\alpha}^{2+\alpha}$$

    with $\alpha = 2$ in the paper. In the dtype of `delta`, differentiable.

    Source: LG-13, arXiv:1811.04918 section 4.

    Args:
        delta: the movement; its biases and `a` are not looked at.
        lam_w: $\lambda_w$, on the first layer.
        lam_v: $\lambda_v$, on the second.
        alpha: positive.
        scale: $\lambda$, the multiplier of the network.

    Raises:
        ValueError: `alpha` is not positive, or another number is negative or not finite.

    Example:
        >>> import jax.random as jr
        >>> from unlazy.nets import ThreeLayer
        >>> delta = ThreeLayer(inputs=2, widths=2).init(key=jr.key(0))
        >>> print(three_layer_regularizer(delta, lam_w=0.0, lam_v=0.0))
        0.0
    """
    if not (math.isfinite(alpha) and alpha > 0):
        raise ValueError(f"`alpha` must be a positive number, got alpha={alpha}.")
    for name, value in {"lam_w": lam_w, "lam_v": lam_v}.items():
        if is_known(value) and not (math.isfinite(value) and value >= 0):
            raise ValueError(f"`{name}` must be a number >= 0, got {name}={value}.")
    rows = jnp.sum(delta.W**2, axis=1)
    power = 1 + alpha / 2
    first = jnp.sum(rows**2 if power == 2 else rows**power)
    scale = jnp.asarray(scale, delta.W.dtype)
    return lam_v * scale * jnp.sum(delta.V**2) + lam_w * scale**power * first
