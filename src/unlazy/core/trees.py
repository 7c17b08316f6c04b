# SPDX-License-Identifier: Apache-2.0
"""A pytree of parameters as one vector: its norm, its size, and random directions."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray


def gaussian_like(tree: Any, *, key: PRNGKeyArray) -> Any:
    """Independent standard normal entries, in the shapes and dtypes of `tree`."""
    leaves, structure = jax.tree.flatten(tree)
    keys = jr.split(key, len(leaves))
    pairs = zip(keys, leaves, strict=True)
    return jax.tree.unflatten(structure, [jr.normal(k, v.shape, v.dtype) for k, v in pairs])


def sphere_like(tree: Any, *, key: PRNGKeyArray) -> Any:
    """A direction uniform on the unit sphere over all entries of `tree` together."""
    direction = gaussian_like(tree, key=key)
    norm = global_norm(direction)
    return jax.tree.map(lambda leaf: leaf / norm.astype(leaf.dtype), direction)


def global_norm(tree: Any) -> Float[Array, ""]:
    """The Euclidean norm of all entries together, in the widest dtype among them."""
    dtype = jnp.result_type(*(leaf.dtype for leaf in jax.tree.leaves(tree)))
    # Divided by the largest entry, so that float32 gradients of 1e-25 do not square to 0.
    leaves = [leaf.astype(dtype) for leaf in jax.tree.leaves(tree)]
    largest = jnp.max(jnp.stack([jnp.max(jnp.abs(leaf), initial=0) for leaf in leaves]))
    scale = jnp.where(largest > 0, largest, 1)
    squares = [jnp.sum((leaf / scale) ** 2) for leaf in leaves]
    return scale * jnp.sqrt(jnp.sum(jnp.stack(squares)))


def count_entries(tree: Any) -> int:
    """How many numbers a pytree holds."""
    return sum(leaf.size for leaf in jax.tree.leaves(tree))
