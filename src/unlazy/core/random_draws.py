# SPDX-License-Identifier: Apache-2.0
"""Random draws that are the same numbers whether or not JAX's x64 flag is on.

`jax.random` takes 64 random bits per number where the default dtype is float64 and 32 where it is
float32, so that the same key gives two different samples. These functions always draw 32 bits,
except in figures whose stored results were drawn in float64.
"""

import contextlib
import contextvars
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray, Shaped

_BY_DEFAULT_DTYPE = contextvars.ContextVar("by_default_dtype", default=False)


@contextlib.contextmanager
def bits_of_the_default_dtype() -> Iterator[None]:
    """Draw as `jax.random` does inside the scope: under x64, from 64 bits per number.

    This is for figures alone, which draw outside of compiled functions or in their own. A program
    that was compiled outside of this scope keeps its draws.
    """
    token = _BY_DEFAULT_DTYPE.set(True)
    try:
        yield
    finally:
        _BY_DEFAULT_DTYPE.reset(token)


def _drawn_in() -> jnp.dtype:
    return jnp.result_type(float) if _BY_DEFAULT_DTYPE.get() else jnp.dtype(jnp.float32)


def draw_normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard Gaussians in the default dtype of JAX, drawn in float32.

    Example:
        >>> from unlazy.core.float64 import float64
        >>> with float64():
        ...     double = draw_normal(jr.key(0), (3,))
        >>> bool((double.astype(jnp.float32) == draw_normal(jr.key(0), (3,))).all())
        True
    """
    return jr.normal(key, shape, _drawn_in()).astype(jnp.result_type(float))


def draw_signs(
    key: PRNGKeyArray, shape: tuple[int, ...], dtype: jax.typing.DTypeLike = float
) -> Shaped[Array, "..."]:
    """Numbers +1 or -1 with probability one half each: those of `jax.random.rademacher`.

    Example:
        >>> print(draw_signs(jr.key(0), (4,)).shape)
        (4,)
    """
    # As jax.random does it, except for the dtype of the probability, which determines the bits.
    positive = jr.bernoulli(key, jnp.asarray(0.5, _drawn_in()), shape)
    return (2 * positive.astype(jnp.int8) - 1).astype(dtype)
