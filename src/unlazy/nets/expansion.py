# SPDX-License-Identifier: Apache-2.0
r"""The Taylor terms of a two-layer network at fixed points, as functions of the movement `W`.

$$f^{(k)}(x; W) = \frac{1}{\sqrt m\, k!} \sum_r C^{(k)}_r(x)\, (w_r^\top x)^k, \qquad
C^{(k)}_r(x) = a_r \sigma^{(k)}(w_{0,r}^\top x)$$

$f_L$ is the term of k = 1 and $f_Q$ that of k = 2. The coefficients $C^{(k)}$ depend on the start
alone, so that they are computed once for many movements; the movement enters as `Z = x W^T`.

Source: BL-8, arXiv:1910.01619 section 3; NB-2 and NB-3, arXiv:2206.03688 section 2.
"""

import math

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float

from unlazy.activations import Activation
from unlazy.nets.two_layer import TwoLayerParams

Precision = jax.lax.Precision | str | None
_HIGHEST = jax.lax.Precision.HIGHEST


def coefficients(
    sigma: Activation,
    params: TwoLayerParams,
    x: ArrayLike,
    order: int,
    *,
    precision: Precision = _HIGHEST,
) -> Float[Array, "n m"]:
    r"""The coefficients $a_r \sigma^{(k)}(w_{0,r}^\top x)$ of the term of order k.

    Args:
        sigma: the activation; it needs a derivative of that order.
        params: the start, of any number of neurons, such as one of each pair of twins.
        x: one sample per row.
        order: k.
        precision: of the product with `x`; None for JAX's present default.
    """
    Z0 = jnp.matmul(x, params.W.T, precision=precision)
    return params.a[None, :] * sigma.derivative(order)(Z0)


def linear_term(
    S: Float[Array, "n m"],
    Z: Float[Array, "n *k m"],
    *,
    width: int | None = None,
    precision: Precision = _HIGHEST,
) -> Float[Array, "n *k"]:
    r"""The linear term $f_L = \frac{1}{\sqrt m} \sum_r S_r\, w_r^\top x$.

    Args:
        S: `coefficients` of order 1.
        Z: the products `x W^T`, of one movement or of several.
        width: m, if it is not the number of columns, as where twins are counted once.
        precision: of the sum; None for JAX's present default.
    """
    return _summed(S, Z, precision) / math.sqrt(width or S.shape[-1])


def quadratic_term(
    T: Float[Array, "n m"],
    Z: Float[Array, "n *k m"],
    *,
    width: int | None = None,
    precision: Precision = _HIGHEST,
) -> Float[Array, "n *k"]:
    r"""The quadratic term $f_Q = \frac{1}{2\sqrt m} \sum_r T_r\, (w_r^\top x)^2$.

    `T` are the `coefficients` of order 2; the rest is as for `linear_term`.
    """
    return _summed(T, Z * Z, precision) / (2 * math.sqrt(width or T.shape[-1]))


def _summed(C: Float[Array, "n m"], Z: Float[Array, "n *k m"], precision: Precision) -> Array:
    # A sum over products as a product of matrices: XLA adds up in order otherwise, five times
    # slower on a processor. With one movement both give the same bits, in the same time.
    return jnp.einsum("nm,n...m->n...", C, Z, precision=precision)
