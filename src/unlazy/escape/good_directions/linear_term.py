# SPDX-License-Identifier: Apache-2.0
"""The linear Taylor term at fixed points, ready for many movements."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.entries import entry
from unlazy.escape.good_directions.twins import Fold
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.nets.expansion import coefficients, linear_term

_HIGHEST = jax.lax.Precision.HIGHEST


class LinearTerm(eqx.Module):
    r"""The linear term of a two-layer network at fixed points, and its transpose.

    $$f_L(x; W) = \frac{1}{\sqrt m} \sum_r a_r \sigma'(w_{0,r}^\top x)\, w_r^\top x$$

    Twins are counted once. JAX differentiates it by one product of its own size, which is the
    gradient written out by hand.

    Source: NB-2 and NB-4, arXiv:2206.03688.
    """

    x: Float[Array, "n d"]
    slopes: Float[Array, "n h"]  # a_r sigma'(w_0r . x)
    folding: Fold
    width: int = eqx.field(static=True)

    @classmethod
    @entry
    def at(cls, net: TwoLayer, params: TwoLayerParams, x, folding: Fold) -> "LinearTerm":
        """The linear term around `params` at the rows of `x`, in the dtype of `params`."""
        dtype = jax.dtypes.canonicalize_dtype(params.W.dtype)  # with x64 off, float32 for float64
        half = jax.tree.map(lambda leaf: jnp.asarray(leaf, dtype), folding.distinct(params))
        x = jnp.asarray(x).astype(dtype)
        return cls(x, coefficients(net.activation, half, x, 1), folding, net.width)

    @entry
    def __call__(self, W: Float[Array | np.ndarray, "m d"]) -> Float[Array, " n"]:
        """Its values at the points."""
        D = self.folding.fold(self.as_movement(W))
        Z = jnp.matmul(self.x.astype(D.dtype), D.T, precision=_HIGHEST)
        return linear_term(self.slopes.astype(D.dtype), Z, width=self.width)

    @entry
    def transpose(self, c: Float[Array, " n"]) -> Float[Array, "m d"]:
        """The gradient in `W` of the sum of the values weighted by `c`."""
        weighted = self.slopes.astype(c.dtype) * c[:, None]
        D = jnp.matmul(weighted.T, self.x.astype(c.dtype), precision=_HIGHEST)
        return self.folding.unfold(D / math.sqrt(self.width))

    @entry
    def as_movement(self, W: Float[Array | np.ndarray, "m d"]) -> Float[Array, "m d"]:
        """The movement as a floating array; raise unless it has the shape of the hidden layer."""
        W, shape = jnp.asarray(W), (self.width, self.x.shape[1])
        if W.shape != shape:
            raise ValueError(
                f"`W` must be a movement of the hidden layer, of shape {shape}, "
                f"got W.shape={W.shape}."
            )
        # Integers would truncate what they are multiplied with; with x64 off JAX rounds float64.
        known = W.dtype if jnp.issubdtype(W.dtype, jnp.floating) else self.x.dtype
        return W.astype(jax.dtypes.canonicalize_dtype(known))
