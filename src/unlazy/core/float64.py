# SPDX-License-Identifier: Apache-2.0
"""The one scope in which the library computes in float64, whatever JAX's global setting is."""

import contextlib
from collections.abc import Iterator

import jax


@contextlib.contextmanager
def float64(on: bool = True) -> Iterator[None]:
    """Compute in float64 inside the scope, or in float32 if not `on`.

    A float64 array that leaves the scope keeps its bits, but where x64 is off the next `jax.numpy`
    operation outside rounds it to float32.

    Example:
        >>> import jax.numpy as jnp
        >>> with float64():
        ...     print(jnp.ones(2).dtype)
        float64
    """
    with jax.enable_x64(on):
        yield
