# SPDX-License-Identifier: Apache-2.0
"""Random signs on the movements of neurons, which cancel the lazy term and keep the next one."""

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry
from unlazy.nets import TwoLayerParams

Where = Callable[[Any], Any]  # from a displacement to its leaf or leaves with one row per neuron
Signs = Float[Array | np.ndarray, " m"]


@entry
def random_signs(width: int, *, key: PRNGKeyArray) -> Float[Array, " {width}"]:
    """Independent signs, +1 or -1 with equal probability, one per neuron.

    The two copies of a neuron under a symmetric initialisation get independent signs.

    Source: BL-7, arXiv:1910.01619 section 3.

    Example:
        >>> print(jnp.abs(random_signs(4, key=jr.key(0))))
        [1. 1. 1. 1.]
    """
    check_count(width, "width")
    check_key(key)
    return jr.rademacher(key, (width,), dtype=jnp.result_type(float))


def all_signs(width: int) -> Float[np.ndarray, "t {width}"]:
    """Every vector of signs; the second half holds the negatives of the first."""
    return np.array(list(itertools.product((1.0, -1.0), repeat=width)))


@entry
def flip(delta: Any, signs: Signs, *, where: Where | None = None) -> Any:
    r"""Multiply the movement of each neuron by its sign.

    $$w_r \mapsto s_r w_r$$

    The linear Taylor term changes sign with $s_r$ and averages to zero; the quadratic term does not
    depend on the signs. Any multipliers may take the place of signs.

    Source: BL-7, arXiv:1910.01619 section 3 ("W Sigma" there, whose columns are neurons).

    Args:
        delta: the displacement: an array whose rows are neurons, the parameters of a `TwoLayer`
            (its `W` is flipped, its `a` left alone), or any pytree with `where`.
        signs: one per neuron.
        where: from `delta` to the array to flip, or a tuple of arrays that belong to the same
            neurons (weights and biases), each with one row per neuron.

    Example:
        >>> print(flip(jnp.ones((2, 3)), jnp.array([1.0, -1.0])))
        [[ 1.  1.  1.]
         [-1. -1. -1.]]
    """
    where = _chosen(delta, where)
    width = units(delta, where)
    if jnp.shape(signs) != (width,):
        raise ValueError(
            f"`signs` must have shape ({width},), one for each row of the flipped arrays, "
            f"got signs.shape={jnp.shape(signs)}."
        )

    def flip_rows(leaf: Array | np.ndarray) -> Array:
        # Integers times one half would all be zero, so integers become floating first.
        leaf = jnp.asarray(leaf)
        dtype = leaf.dtype if eqx.is_inexact_array(leaf) else jnp.result_type(float)
        rows = jnp.asarray(signs, dtype).reshape(-1, *(1,) * (leaf.ndim - 1))
        return rows * leaf.astype(dtype)

    if isinstance(delta, Array | np.ndarray):
        return flip_rows(delta)
    return eqx.tree_at(where, delta, replace_fn=flip_rows)


def units(delta: Any, where: Where | None = None) -> int:
    """The number of neurons that `delta` moves."""
    return hidden_rows(delta, where).shape[0]


def hidden_rows(delta: Any, where: Where | None = None) -> Float[Array, "m k"]:
    """The hidden arrays side by side: all that moves a neuron, one neuron per row."""
    leaves = jax.tree.leaves(_chosen(delta, where)(delta))
    counts = sorted({jnp.shape(leaf)[0] if jnp.ndim(leaf) else 0 for leaf in leaves})
    if len(counts) != 1 or counts[0] == 0:
        raise ValueError(
            "`where` must pick arrays with one row a neuron, of the same neurons, "
            f"got row counts {counts}."
        )
    flat = [jnp.asarray(leaf).reshape(counts[0], -1) for leaf in leaves]
    return flat[0] if len(flat) == 1 else jnp.concatenate(flat, axis=1)


def _chosen(delta: Any, where: Where | None) -> Where:
    if where is not None:
        return where
    if isinstance(delta, Array | np.ndarray):
        return lambda same: same
    if isinstance(delta, TwoLayerParams):
        return lambda params: params.W
    raise ValueError(
        "`where` must be given unless `delta` is an array or of a TwoLayer network, "
        f"got delta of type {type(delta).__name__}. Pass a function from delta to the array "
        "with one row a neuron."
    )
