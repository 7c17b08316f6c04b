# SPDX-License-Identifier: Apache-2.0
"""The noisy 2-XOR distribution, on which the paper compares the quadratic model with the NTK."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import as_array, check_inputs
from unlazy.core.entries import entry


class NoisyTwoXor(NamedTuple):
    """Inputs and labels of the noisy 2-XOR distribution."""

    x: Float[Array | np.ndarray, "n d"]
    y: Float[Array | np.ndarray, " n"]


@entry
def noisy_two_xor(corners: Float[Array | np.ndarray, "n d"]) -> NoisyTwoXor:
    r"""Noisy 2-XOR: two coordinates decide the label, all others are noise.

    $$(x_1, x_2, y) \in \{(c, 0, 1), (-c, 0, 1), (0, c, -1), (0, -c, -1)\}, \qquad
    (x_3, \dots, x_d) \in \{-c, c\}^{d-2}, \qquad y = (x_1^2 - x_2^2)/c^2$$

    all equally likely: a corner of the cube $[-c, c]^d$ goes to one of these points, and each point
    comes from one corner. So `data.cube` gives a sample, and `data.corners` all $2^d$ points. In
    the coordinates $x_1 \pm x_2$ the label is the XOR of two signs. Inputs have norm
    $c\sqrt{d - 1}$ and their second moment condition number 2; `two_xor` with form="squares" has
    the movement that learns the labels.

    Source: arXiv:1910.01619 section 5; the distribution is that of Wei, Lee, Liu and Ma,
    arXiv:1810.05369, in the form that Ji and Telgarsky, arXiv:1909.12292, give.

    Args:
        corners: of a cube, of at least three dimensions: entries c and -c.

    Example:
        >>> import unlazy as ul
        >>> x, y = noisy_two_xor(ul.data.corners(3)[:4])
        >>> print(x.tolist(), y)
        [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [-1.0, 0.0, 1.0], [0.0, -1.0, 1.0]] [ 1. -1.  1. -1.]
    """
    corners = as_array(corners, "corners")
    check_inputs(corners, "corners")
    n, d = np.shape(corners)
    sizes = np.abs(np.asarray(corners))
    if d < 3 or sizes.min() != sizes.max():
        raise ValueError(
            "`corners` must be corners of a cube of at least three dimensions, with entries c and "
            f"-c, got shape ({n}, {d}) and sizes from {sizes.min():g} to {sizes.max():g}. "
            "data.cube draws some."
        )
    xp = jnp if isinstance(corners, jax.Array) else np
    y = xp.sign(corners[:, 0])
    first, second = (xp.where(side, corners[:, 1], 0) for side in (y > 0, y < 0))
    columns = [first[:, None], second[:, None], corners[:, 2:]]
    return NoisyTwoXor(xp.concatenate(columns, axis=1), y)
