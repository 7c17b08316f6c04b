# SPDX-License-Identifier: Apache-2.0
"""Section 8.2: a Rademacher bound for two-layer networks from their weights alone."""

import math

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_finite, check_positive
from unlazy.core.entries import entry
from unlazy.core.float64 import float64


class WeightNormBound(eqx.Module):
    """A bound from the norms of the neurons, and the weaker one from the Frobenius norm."""

    path: float
    frobenius: float


@entry
def rademacher_weight_norms(
    W: Float[Array | np.ndarray, "m d"], n: int, *, radius: int | float = 1.0
) -> WeightNormBound:
    r"""Bound the Rademacher complexity of two-layer ReLU networks of no larger norms of neurons.

    $$\mathcal R_S \le \frac{2 B_x}{\sqrt{m n}} \sum_j \|w_j\| \le \frac{2 B_x \|W\|_F}{\sqrt n}$$

    for $f(x) = \sum_j a_j \sigma(w_j^\top x)$ with $|a_j| = 1/\sqrt m$, as in `TwoLayer`, and
    $\|x_i\| \le B_x$, the `radius`. Nothing is said of a start: what SGD finds may lie far from the
    smallest W that fits, and then this bound does not explain it.

    Source: RN-30, arXiv:1905.10337 section 8.2.

    Raises:
        ValueError: `W` is not a finite matrix, `n` not a count, or `radius` not positive.

    Example:
        >>> print(rademacher_weight_norms(jnp.ones((4, 1)), 100))
        WeightNormBound(path=0.4, frobenius=0.4)
    """
    check_count(n, "n", most=None)
    check_positive(radius, "radius")
    if np.ndim(W) != 2 or 0 in np.shape(W):
        raise ValueError(f"`W` must have shape (m, d), one neuron a row, got shape {np.shape(W)}.")
    check_finite(W, "W")
    with float64():
        norms = jnp.linalg.norm(jnp.asarray(W, jnp.float64), axis=1)
        total, frobenius = float(jnp.sum(norms)), float(jnp.linalg.norm(norms))
    factor = 2 * float(radius) / math.sqrt(n)
    return WeightNormBound(factor * total / math.sqrt(norms.shape[0]), factor * frobenius)
