# SPDX-License-Identifier: Apache-2.0
"""The change of a two-layer network by a movement, beside its two Taylor terms."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.float64 import float64
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients, linear_term, quadratic_term

_HIGHEST = jax.lax.Precision.HIGHEST
_ENTRIES = 2**22  # of each array over samples and neurons: 32 MB in float64


class MovementTerms(NamedTuple):
    """The change of the network at each input, its linear and its quadratic term."""

    change: Float64[np.ndarray, " n"]
    linear: Float64[np.ndarray, " n"]
    quadratic: Float64[np.ndarray, " n"]

    @property
    def remainder(self) -> Float64[np.ndarray, " n"]:
        """The change less the two terms."""
        return self.change - self.linear - self.quadratic


def movement_terms(
    net: TwoLayer,
    params0: TwoLayerParams,
    dW: Float[Array | np.ndarray, "m d"],
    x: Float[Array | np.ndarray, "n d"],
) -> MovementTerms:
    r"""The change of the network and its Taylor terms in float64, samples in blocks.

    $$f(W_0 + W) - f(W_0), \qquad f_L = \frac{1}{\sqrt m} \sum_r a_r \sigma'(w_{0,r}^\top x)\,
    w_r^\top x, \qquad f_Q = \frac{1}{2\sqrt m} \sum_r a_r \sigma''(w_{0,r}^\top x)
    (w_r^\top x)^2$$

    Source: NB-1 to NB-3, arXiv:2206.03688 section 2.
    """
    block = min(len(x), max(1, _ENTRIES // net.width))
    parts = []
    with float64():
        start = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), params0)
        W = jnp.asarray(dW, jnp.float64)
        for k in range(0, len(x), block):
            # Filled up with the last row, so that one shape is compiled.
            rows = np.asarray(x, np.float64)[np.minimum(np.arange(k, k + block), len(x) - 1)]
            parts.append(np.asarray(_terms(net, start, W, jnp.asarray(rows))))
    return MovementTerms(*np.concatenate(parts, axis=1)[:, : len(x)])


@jax.jit
def _terms(net: TwoLayer, start: TwoLayerParams, W, x) -> Float64[Array, "3 n"]:
    Z0, Z = (jnp.matmul(x, V.T, precision=_HIGHEST) for V in (start.W, W))
    S, T = (coefficients(net.activation, start, x, k) for k in (1, 2))
    moved = net.activation(Z0 + Z) - net.activation(Z0)
    change = jnp.matmul(moved, start.a, precision=_HIGHEST) / math.sqrt(net.width)
    return jnp.stack([change, linear_term(S, Z), quadratic_term(T, Z)])
