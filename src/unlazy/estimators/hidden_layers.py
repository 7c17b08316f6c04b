# SPDX-License-Identifier: Apache-2.0
"""A random hidden layer at its start, and the derivatives of its activation at samples."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float64

from unlazy.activations import Activation
from unlazy.core.float64 import float64

_SIZES = 2**13, 2**18  # entries evaluated at a time: two programs per activation and order


class HiddenLayer(NamedTuple):
    r"""The distinct neurons of a symmetric start, each of which has a twin.

    A sample is lifted to $\tilde x = (x/\sqrt d, b)$, with a coordinate b for the bias.
    """

    W: Float64[np.ndarray, "h e"]
    sigma: Activation
    bias: float  # b; without that coordinate where it is 0

    @classmethod
    def drawn(
        cls, inputs: int, width: int, sigma: Activation, bias: float, random: np.random.RandomState
    ) -> "HiddenLayer":
        """Standard Gaussian weights, as `TwoLayer(..., init="symmetric")` has them."""
        entries = inputs + (bias != 0)
        return cls(random.standard_normal((width // 2, entries)), sigma, bias)

    def lifted(self, X: Float64[np.ndarray, "n d"]) -> Float64[np.ndarray, "n e"]:
        """The inputs of the layer."""
        n, d = X.shape
        scaled = X / np.sqrt(d)
        return np.hstack([scaled, np.full((n, 1), self.bias)]) if self.bias else scaled

    def derivatives(
        self, x: Float64[np.ndarray, "n e"], orders: range
    ) -> Float64[np.ndarray, "k n h"]:
        r"""The derivatives $\sigma^{(k)}(w_r^\top \tilde x)$ of these orders."""
        Z = x @ self.W.T
        return np.stack([elementwise(self.sigma, k, Z) for k in orders])


def elementwise(sigma: Activation, k: int, Z: Float64[np.ndarray, "..."]) -> np.ndarray:
    """The k-th derivative at every entry, in float64.

    Entries are evaluated in vectors of two lengths alone, because JAX compiles for each shape.
    """
    flat = Z.ravel()
    size = next((size for size in _SIZES if flat.size <= size), _SIZES[-1])
    result = np.empty_like(flat)
    with float64():
        for start in range(0, flat.size, size):
            part = flat[start : start + size]
            values = _evaluated(sigma, k, np.pad(part, (0, size - part.size)))
            result[start : start + size] = np.asarray(values)[: part.size]
    return result.reshape(Z.shape)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _evaluated(sigma: Activation, k: int, z: Array | np.ndarray) -> Array:
    return sigma.derivative(k)(jnp.asarray(z))
