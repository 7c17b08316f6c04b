# SPDX-License-Identifier: Apache-2.0
"""Random labels, and labels of which a part is replaced by random ones."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import check_count, check_key, is_known, some_rows
from unlazy.core.entries import entry
from unlazy.core.random_draws import draw_signs


@entry
def random_labels(n: int, *, key: PRNGKeyArray) -> Float[Array, " n"]:
    """Draw `n` independent labels, +1 or -1 with probability one half each.

    Source: AR-22, arXiv:1901.08584 sec. 6.

    Example:
        >>> import jax
        >>> y = random_labels(4, key=jax.random.key(0))
        >>> bool((abs(y) == 1).all())
        True
    """
    check_count(n, "n")
    check_key(key)
    return draw_signs(key, (n,))


@entry
def corrupt_labels(
    y: Float[Array, " n"], fraction: float, *, key: PRNGKeyArray
) -> Float[Array, " n"]:
    """Replace a random subset of the labels, each +1 or -1, by fresh uniform ones.

    The subset has exactly `round(fraction * n)` indices and is uniform among those of that size. A
    fresh label equals the old one half of the time, so about `fraction / 2` of the labels change;
    `fraction=1` gives labels that are independent of `y`. With the same key a larger fraction keeps
    the fresh labels of a smaller one and adds to them.

    Source: AR-22, arXiv:1901.08584 sec. 6. The paper corrupts training and test labels alike: call
    this once for each, with different keys.

    Example:
        >>> import jax
        >>> y = jax.numpy.ones(1000)
        >>> changed = corrupt_labels(y, 0.2, key=jax.random.key(0)) != y
        >>> 0 < int(changed.sum()) <= 200
        True
    """
    _check_signs(y)
    check_key(key)
    if not (isinstance(fraction, int | float | np.number) and 0 <= fraction <= 1):
        raise ValueError(
            f"`fraction` must be between 0 and 1, got fraction={fraction!r}. "
            "It is the share of labels drawn again, not the number."
        )
    y = jnp.asarray(y)
    (n,) = y.shape
    key_rank, key_fresh = jr.split(key)
    # Ranks below the count, not the first entries of a permutation: then the fraction changes no
    # shape, and a whole range of fractions is compiled once.
    is_fresh = jr.permutation(key_rank, n) < round(fraction * n)
    return jnp.where(is_fresh, draw_signs(key_fresh, (n,), y.dtype), y)


def _check_signs(y: Float[Array, " n"]) -> None:
    shape = np.shape(y)
    if len(shape) != 1 or shape[0] == 0:
        raise ValueError(f"`y` must have shape (n,) with n >= 1, got y.shape={shape}.")
    if not is_known(y):
        return
    if not jnp.issubdtype(jnp.result_type(y), jnp.floating):  # unsigned ones can hold no -1
        raise ValueError(f"`y` must be floating-point labels, got y.dtype={jnp.result_type(y)}.")
    bad = np.flatnonzero(np.abs(np.asarray(y)) != 1)
    if bad.size:
        raise ValueError(f"`y` must hold only +1 and -1, got other values in {some_rows(bad)}.")
