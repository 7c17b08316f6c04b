# SPDX-License-Identifier: Apache-2.0
"""Synthetic inputs: the uniform distributions on a sphere and on the corners of a cube."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, check_positive
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_normal, draw_signs


@entry
def sphere(n: int, d: int, *, radius: float = 1.0, key: PRNGKeyArray) -> Float[Array, "n d"]:
    r"""Draw `n` points, independent and uniform on the sphere of radius `radius` in `d` dimensions.

    $$x_i = r\, g_i / \|g_i\|_2, \qquad g_i \sim N(0, I_d)$$

    Source: Muller, "A note on a method for generating points uniformly on n-dimensional spheres",
    Communications of the ACM 2 (1959).

    Points are rows, in the default dtype of JAX; float32 and float64 give the same points, to
    rounding.

    Example:
        >>> import jax
        >>> sphere(5, 3, radius=2.0, key=jax.random.key(0)).shape
        (5, 3)
    """
    check_count(n, "n")
    check_count(d, "d")
    check_positive(radius, "radius")
    check_key(key)
    g = draw_normal(key, (n, d))
    norm = jnp.linalg.norm(g, axis=1, keepdims=True)
    # A float32 normal is one of finitely many numbers: for small d a whole row is zero once in
    # millions of draws. Such a row becomes the first axis instead of nan.
    axis = jnp.zeros_like(g).at[:, 0].set(1)
    return radius * jnp.where(norm > 0, g / norm, axis)


@entry
def cube(n: int, d: int, *, scale: float = 1.0, key: PRNGKeyArray) -> Float[Array, "n d"]:
    """Draw `n` corners, independent and uniform among the `2**d` of the cube `[-scale, scale]^d`.

    Corners are rows, in the default dtype of JAX; `scale = d ** -0.5` gives them unit norm.

    Example:
        >>> import jax
        >>> x = cube(5, 3, scale=0.5, key=jax.random.key(0))
        >>> bool((abs(x) == 0.5).all())
        True
    """
    check_count(n, "n")
    check_count(d, "d")
    check_positive(scale, "scale")
    check_key(key)
    return scale * draw_signs(key, (n, d))


@entry
def corners(d: int, *, scale: int | float = 1.0) -> Float64[np.ndarray, "n d"]:
    """All `2**d` corners of the cube `[-scale, scale]^d`, for exact averages over it.

    Corner number i has entry j negative where bit j of i is set: the first is all positive, and
    the values of a function in this order are what `special.walsh_hadamard` takes. `d` is at most
    24; `scale = d ** -0.5` gives rows of unit norm.

    Example:
        >>> print(corners(2))
        [[ 1.  1.]
         [-1.  1.]
         [ 1. -1.]
         [-1. -1.]]
    """
    check_count(d, "d")
    check_positive(scale, "scale")
    if d > 24:
        raise ValueError(
            f"`d` must be at most 24, got d={d}: there are 2^{d} corners. Draw some with `cube`."
        )
    bits = np.arange(2**d)[:, None] >> np.arange(d)[None, :] & 1
    return np.where(bits == 1, -float(scale), float(scale))
