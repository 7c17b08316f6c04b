# SPDX-License-Identifier: Apache-2.0
"""Random draws that are the same numbers whether or not JAX's x64 flag is on.

`jax.random` takes 64 random bits per number where the default dtype is float64 and 32 where it is
float32, so that the same key gives two unlike samples. Here 32 bits are drawn always.
"""

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, Shaped


def draw_normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard Gaussians in the default dtype of JAX, drawn in float32.

    Example:
        >>> with jax.enable_x64(True):
        ...     double = draw_normal(jr.key(0), (3,))
        >>> bool((double.astype(jnp.float32) == draw_normal(jr.key(0), (3,))).all())
        True
    """
    return jr.normal(key, shape, jnp.float32).astype(jnp.result_type(float))


def draw_signs(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: jax.typing.DTypeLike = float
) -> Shaped[Array, "..."]:
    """Numbers +1 or -1 with probability one half each: those of `jax.random.rademacher`.

    Example:
        >>> print(draw_signs(jr.key(0), (4,)).shape)
        (4,)
    """
    # As jax.random does it, but for the dtype of the probability, which decides on the bits.
    positive = jr.bernoulli(key, jnp.float32(0.5), shape)
    return (2 * positive.astype(jnp.int8) - 1).astype(dtype)
