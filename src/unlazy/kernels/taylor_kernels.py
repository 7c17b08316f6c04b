# SPDX-License-Identifier: Apache-2.0
"""The kernel of one Taylor term of a two-layer network of finite width."""

import functools
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.activations import Activation
from unlazy.core.checks import MOST_FACTORIAL, check_count, check_finite
from unlazy.core.entries import entry
from unlazy.kernels.blocks import check_pair
from unlazy.kernels.differentiation import at_precision
from unlazy.linalg.full_precision import full_product

_ENTRIES = 2**24  # of the features held at a time: 128 MB in float64


@runtime_checkable
class HasTaylorFeatures(Protocol):
    """A two-layer network, which knows the features of its Taylor terms."""

    inputs: int
    width: int

    def taylor_features(self, params: Any, order: int) -> Any:
        """Activation, distinct neurons, their squared output weights, and a scale."""
        ...


@entry
def taylor_kernel(
    net: HasTaylorFeatures,
    params0: Any,
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    order: int,
) -> Float64[Array, "n1 n2"]:
    r"""The kernel of the features of the k-th Taylor term, in the hidden weights at `params0`.

    $$K_k(x, x') = (x^\top x')^k\, \frac{1}{m\, k!^2}
    \sum_{r=1}^m a_r^2\, \sigma^{(k)}(w_{0,r}^\top x)\, \sigma^{(k)}(w_{0,r}^\top x')$$

    of $f^{(k)}(x) = \frac{1}{\sqrt m\, k!} \sum_r a_r \sigma^{(k)}(w_{0,r}^\top x)
    \langle A_r, x^{\otimes k}\rangle$ with free tensors $A_r$ for $w_r^{\otimes k}$. For k = 1
    it is the empirical NTK of the hidden layer, $K_L$; for k = 2 the Frobenius relaxation $K_Q$,
    whose limits are `relu3_tangent` and `relu3_quadratic`. Hadamard products: the $m d^k$ features
    are never formed, and neurons are taken in blocks.

    Source: BL-16, arXiv:1910.01619, there for k = 1 and 2.

    `order` is k, at least 0; the activation needs a derivative of that order. The matrix is
    symmetric to the last bit when `x2` is None.

    Example:
        >>> from unlazy.nets import TwoLayer, TwoLayerParams
        >>> net = TwoLayer(inputs=2, width=2, activation="quadratic")
        >>> params = TwoLayerParams(W=jnp.eye(2), a=jnp.ones(2))
        >>> print(taylor_kernel(net, params, jnp.eye(2), order=2))
        [[0.25 0.  ]
         [0.   0.25]]
    """
    check_count(order, "order", least=0, most=MOST_FACTORIAL)
    x1, x2, dtype = check_pair(x1, x2, "float64", allow_zero_rows=True)
    if params0.W.shape != (net.width, net.inputs) or x1.shape[1] != net.inputs:
        raise ValueError(
            f"`params0` and `x1` must be of this network, with W of shape ({net.width}, "
            f"{net.inputs}), got params0.W.shape={params0.W.shape} and x1.shape={x1.shape}."
        )
    check_finite(params0.W, "params0.W")
    check_finite(params0.a, "params0.a")

    def evaluate(x1, x2, dtype):
        rows1 = jnp.asarray(x1, dtype)
        rows2 = rows1 if x2 is None else jnp.asarray(x2, dtype)
        sigma, W, squares, scale = net.taylor_features(params0, order)
        W, squares = jnp.asarray(W), jnp.asarray(squares)
        block = max(1, _ENTRIES // (len(rows1) + len(rows2)))
        sums = jnp.zeros((len(rows1), len(rows2)), dtype)
        for start in range(0, len(W), block):
            part = slice(start, start + block)
            sums = sums + _products(sigma, order, rows1, rows2, W[part], squares[part])
        K = scale * full_product(rows1, rows2.T) ** order * sums
        return (K + K.T) / 2 if x2 is None else K

    return at_precision(evaluate, x1, x2, dtype)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _products(sigma: Activation, order: int, x1, x2, W, squares) -> Float[Array, "n1 n2"]:
    derivative = sigma.derivative(order)
    features1, features2 = (derivative(full_product(x, W.T)) for x in (x1, x2))
    return full_product(features1 * squares[None, :], features2.T)
