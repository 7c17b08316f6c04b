# SPDX-License-Identifier: Apache-2.0
"""The losses that the population bounds speak of, sample by sample."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Float

from unlazy.core.checks import as_array
from unlazy.core.entries import entry
from unlazy.losses import check_shapes, check_signs

Values = Float[Array | np.ndarray, "*shape"]


@entry
def ramp_loss(u: Values, y: Values) -> Values:
    r"""The ramp loss of each sample, which lies above the error and is Lipschitz.

    $$\ell(u, y) = \min(1, \max(0, 1 - u y))$$

    In [0, 1], zero where $u = y = \pm 1$, and 1-Lipschitz in `u` for labels $\pm 1$: every bound of
    `population_loss` holds for its mean, and so for the error, `zero_one_loss`.

    Source: AR-18, arXiv:1901.08584 Corollary 5.2.

    Args:
        u: predictions.
        y: labels, +1 or -1.

    Returns:
        The losses, of the shape and dtype of the arguments: a NumPy array when both are.

    Raises:
        ValueError: the shapes differ, or a label is neither +1 nor -1.

    Example:
        >>> print(ramp_loss(np.array([2.0, 0.5, -3.0]), np.ones(3)))
        [0.  0.5 1. ]
    """
    xp, u, y = _alike(u, y)
    check_signs(y, loss="the ramp loss")
    return xp.clip(1 - u * y, 0, 1)


@entry
def zero_one_loss(u: Values, y: Values) -> Values:
    r"""Whether each sample is misclassified, as 0 or 1.

    $$\ell(u, y) = 1\{u y \le 0\}$$

    A prediction of exactly 0 counts as an error, and so does nan: a network that has diverged
    predicts nothing.

    Source: AR-18, arXiv:1901.08584 Corollary 5.2.

    Args:
        u: predictions.
        y: labels, +1 or -1.

    Returns:
        The losses, floating-point so that their mean is the error rate.

    Raises:
        ValueError: the shapes differ, or a label is neither +1 nor -1.

    Example:
        >>> print(zero_one_loss(np.array([2.0, 0.0, -3.0]), np.ones(3)))
        [0. 1. 1.]
    """
    xp, u, y = _alike(u, y)
    check_signs(y, loss="the zero-one loss")
    # The sign, not the product, which rounds to zero where `u` is tiny; and not "at most 0", which
    # nan is not.
    return (~(xp.sign(u) * y > 0)).astype(u.dtype)


@entry
def absolute_loss(u: Values, y: Values) -> Values:
    r"""The distance of each prediction from its label.

    $$\ell(u, y) = |u - y|$$

    Not clipped, hence not within [0, 1]: the population bounds hold for `clipped_absolute_loss`.

    Source: AR-18, arXiv:1901.08584 section 5 (the loss of Figure 2).

    Example:
        >>> print(absolute_loss(np.array([2.0, 0.5]), np.ones(2)))
        [1.  0.5]
    """
    xp, u, y = _alike(u, y)
    return xp.abs(u - y)


@entry
def clipped_absolute_loss(u: Values, y: Values) -> Values:
    r"""The distance of each prediction from its label, at most 1.

    $$\ell(u, y) = \min(1, |u - y|)$$

    In [0, 1] and 1-Lipschitz for labels of any size, as the population bounds ask. For labels
    $\pm 1$ it is at least the ramp loss.

    Source: AR-18, arXiv:1901.08584 Theorem 5.1.

    Example:
        >>> print(clipped_absolute_loss(np.array([2.5, 0.5]), np.ones(2)))
        [1.  0.5]
    """
    xp, u, y = _alike(u, y)
    return xp.minimum(xp.abs(u - y), xp.ones((), u.dtype))


def _alike(u: ArrayLike, y: ArrayLike):
    """Both in one dtype, and the module that computes with them."""
    xp = jnp if isinstance(u, jax.Array) or isinstance(y, jax.Array) else np
    u, y = _as_floats(u, "u"), _as_floats(y, "y")
    check_shapes(u, y, of="`u`")
    dtype = max(u.dtype, y.dtype, key=lambda dtype: dtype.itemsize)
    if xp is jnp:
        dtype = jax.dtypes.canonicalize_dtype(dtype)
    return xp, xp.asarray(u, dtype), xp.asarray(y, dtype)


def _as_floats(value: ArrayLike, name: str) -> Array | np.ndarray:
    if isinstance(value, jax.Array) and not jnp.issubdtype(value.dtype, jnp.floating):
        return jnp.asarray(value, float)
    return as_array(value, name)
