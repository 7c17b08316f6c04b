# SPDX-License-Identifier: Apache-2.0
"""Products of matrices in the full precision of their entries."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike


def full_product(A: ArrayLike, B: ArrayLike) -> Array:
    """The product of two matrices; on a GPU JAX's default, TF32, keeps three digits of float32."""
    return jnp.matmul(A, B, precision=jax.lax.Precision.HIGHEST)
