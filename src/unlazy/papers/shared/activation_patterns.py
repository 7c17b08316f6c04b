# SPDX-License-Identifier: Apache-2.0
"""Pre-activations and activation patterns of a two-layer ReLU network, and their Gram matrix."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Float64

from unlazy.core.checks import check_finite, check_inputs
from unlazy.core.float64 import float64

Inputs = Float[Array | np.ndarray, "n d"]
Weights = Float[Array | np.ndarray, "m d"]


def preactivations(W: Weights, x: Inputs) -> Float64[Array, "n m"]:
    r"""$P = X W^\top$ in float64."""
    with float64():
        return _product(jnp.asarray(x, jnp.float64), jnp.asarray(W, jnp.float64))


def pattern(P: Float[Array, "n m"]) -> Bool[Array, "n m"]:
    """The active neurons; a zero pre-activation counts as active."""
    return P >= 0


def pattern_gram(A: Bool[Array, "n m"], x: Inputs) -> Float64[Array, "n n"]:
    r"""$H = K \circ A A^\top / m$, the tangent kernel of the hidden layer, with no Jacobian (AR-5).

    The output weights are $\pm 1$ and drop out.
    """
    with float64():
        return _pattern_gram(A, jnp.asarray(x, jnp.float64))


def check_network(W: Weights, x: Inputs, name: str = "params0.W") -> None:
    """Raise unless `x` are finite inputs without zero rows that fit the neurons `W`."""
    check_inputs(x)
    if np.ndim(W) != 2 or np.shape(W)[1] != np.shape(x)[1]:
        raise ValueError(
            f"`{name}` must have shape (m, d) with one column for each of x, "
            f"got {name}.shape={np.shape(W)} and x.shape={np.shape(x)}."
        )
    check_finite(W, name)


@jax.jit
def _product(x: Float64[Array, "n d"], W: Float64[Array, "m d"]) -> Float64[Array, "n m"]:
    return jnp.matmul(x, W.T, precision=jax.lax.Precision.HIGHEST)


@jax.jit
def _pattern_gram(A: Bool[Array, "n m"], x: Float64[Array, "n d"]) -> Float64[Array, "n n"]:
    m = A.shape[1]
    # Counts up to 2^24 are exact in float32, at half the memory and twice the speed of float64.
    dtype = jnp.float32 if m < 2**24 else jnp.float64
    ones = A.astype(dtype)
    counts = jnp.matmul(ones, ones.T, precision=jax.lax.Precision.HIGHEST).astype(jnp.float64)
    K = _product(x, x)
    return (K + K.T) / 2 * counts / m
