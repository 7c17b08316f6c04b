# SPDX-License-Identifier: Apache-2.0
"""Mini-batches without replacement, as a state that a compiled loop can carry."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from unlazy.core.checks import check_count


class Batches(NamedTuple):
    """The state of an epoch: its order of the samples and the next place in it."""

    key: PRNGKeyArray
    order: Int[Array, " n"]
    place: Int[Array, ""]


def count_rows(data: Any) -> int:
    """The number of samples in `data`; raise if its arrays differ in it, or have none."""
    return common_count([np.shape(leaf) for leaf in jax.tree.leaves(data)])


def common_count(shapes: Sequence[tuple[int, ...]], name: str = "data") -> int:
    """The number of rows that all of these shapes have."""
    counts = {shape[0] if shape else 0 for shape in shapes}
    if len(counts) != 1 or counts == {0}:
        raise ValueError(
            f"`{name}` must be arrays with the same number of rows, at least one, "
            f"got row counts {sorted(counts)}."
        )
    return counts.pop()


def check_batch_size(batch_size: int, samples: int) -> None:
    """Raise unless there are as many samples as a batch takes."""
    check_count(batch_size, "batch_size")
    if batch_size > samples:
        raise ValueError(
            f"`batch_size` must be at most the number of samples, {samples}, "
            f"got batch_size={batch_size}. Use None for full-batch descent."
        )


def start_batches(data: Any, batch_size: int, *, key: PRNGKeyArray) -> Batches:
    """The state before the first batch; raise if `data` is ragged or has fewer rows than that."""
    n = count_rows(data)
    check_batch_size(batch_size, n)
    # A place past the end makes the first step draw the first order.
    return Batches(key, jnp.arange(n), jnp.asarray(n))


def next_batch(
    batches: Batches | None, data: Any, batch_size: int | None
) -> tuple[Batches | None, Any]:
    """The next rows of `data`; each epoch has a new order and skips its last n mod batch_size.

    Without batches these are all rows.
    """
    if batches is None or batch_size is None:
        return batches, data
    n = batches.order.shape[0]
    epoch_over = batches.place + batch_size > n
    key, order, place = jax.lax.cond(epoch_over, _reshuffle, lambda same: same, batches)
    rows = jax.lax.dynamic_slice(order, (place,), (batch_size,))
    batch = jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], data)
    return Batches(key, order, place + batch_size), batch


def _reshuffle(batches: Batches) -> Batches:
    key, key_order = jr.split(batches.key)
    return Batches(key, jr.permutation(key_order, batches.order), jnp.zeros_like(batches.place))
