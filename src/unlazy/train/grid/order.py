# SPDX-License-Identifier: Apache-2.0
"""The order in which an epoch visits the samples, the same for all lanes of a seed."""

import jax
import jax.random as jr
import numpy as np
from jaxtyping import Array, Int, Integer, PRNGKeyArray

from unlazy.core.checks import check_count, check_key
from unlazy.core.entries import entry


@entry
def batch_order(n: int, *, epoch: int, seed: int = 0, key: PRNGKeyArray) -> Int[np.ndarray, " n"]:
    """The order in which `fit_grid` visits n samples in an epoch, counted from 0.

    Its mini-batch number j takes the places from j * batch_size on. For a run of another library on
    the same mini-batches.

    Args:
        n: number of samples.
        epoch: which epoch.
        seed: entry of the `seeds` of the grid.
        key: the `key` of the grid.

    Example:
        >>> print(sorted(batch_order(5, epoch=0, key=jr.key(0)).tolist()))
        [0, 1, 2, 3, 4]
    """
    check_count(n, "n")
    check_count(epoch, "epoch", least=0)
    check_count(seed, "seed", least=0, most=None)
    check_key(key)
    return np.asarray(epoch_order(seed_key(key, seed), epoch, n))


def seed_key(key: PRNGKeyArray, seed: int | Integer[Array, ""]) -> PRNGKeyArray:
    """The key of all batch orders of a seed."""
    return jr.fold_in(key, seed)


def epoch_order(key: PRNGKeyArray, epoch: int | Int[Array, ""], n: int) -> Int[Array, " n"]:
    """The order of one epoch, from the key of a seed; each epoch's is independent of the others."""
    return jr.permutation(jr.fold_in(key, epoch), n)


def seed_keys(key: PRNGKeyArray, seeds: Integer[Array, " r"]) -> Array:
    """One key a seed, stacked."""
    return jax.vmap(lambda seed: seed_key(key, seed))(seeds)
