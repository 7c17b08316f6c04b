# SPDX-License-Identifier: Apache-2.0
"""The limiting tangent kernel of a two-layer ReLU network whose first layer is trained."""

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.entries import entry
from unlazy.kernels.blocks import angular_matrix, check_pair
from unlazy.kernels.differentiation import at_precision
from unlazy.special import arc_cosine


@entry
def relu_gram(
    x1: Float[Array | np.ndarray, "n1 d"],
    x2: Float[Array | np.ndarray, "n2 d"] | None = None,
    *,
    dtype: jax.typing.DTypeLike = "float64",
) -> Float[Array, "n1 n2"]:
    r"""The Gram matrix H-infinity of a ReLU network of infinite width.

    $$H_{ij} = \mathbb E_{w \sim N(0, I)}\big[x_i^\top x_j 1\{w^\top x_i \ge 0\}
    1\{w^\top x_j \ge 0\}\big] = x_i^\top x_j \, \frac{\pi - \arccos c_{ij}}{2\pi}$$

    with $c_{ij}$ the cosine between the rows, which need not have unit norm.

    The diagonal is exactly $\|x_i\|^2 / 2$ and the matrix exactly symmetric when `x2` is None. For
    nearly parallel or antipodal rows, where the cosine no longer carries the angle (rounding of
    1e-16 becomes an error of 1e-8), the angle comes from the difference of the rows instead; under
    `jax.jit` that repair is left out.

    Differentiable in `x`, except at parallel rows: there the angle grows to either side, and the
    derivative is the mean of the one-sided ones, to which the angle contributes zero. So it is for
    every kernel of this package. With x64 off, derivatives are taken in float32.

    Source: AR-6, arXiv:1901.08584 eq. (3); general norms are derived there.

    Args:
        x1: one input per row, no row zero.
        x2: other inputs, for the cross kernel; None means `x1`.
        dtype: what to compute in and return, "float64" or "float32", whatever dtype `x` has and
            whatever JAX's global setting is. On a GPU the products are never TF32.

    Example:
        >>> print(relu_gram(np.eye(2)))
        [[0.5 0. ]
         [0.  0.5]]
    """
    x1, x2, dtype = check_pair(x1, x2, dtype)
    return at_precision(partial(angular_matrix, _ReluGram(), list), x1, x2, dtype)


@dataclass(frozen=True)
class _ReluGram:
    """`rows` are the norms."""

    def pairs(
        self,
        cos: Float[Array, "*shape"],
        gap: Float[Array, "*shape"],
        rows1: Float[Array, "..."],
        rows2: Float[Array, "..."],
    ) -> Float[Array, "*shape"]:
        # The norms are multiplied first: that product commutes to the last bit, keeping symmetry.
        return cos * arc_cosine(cos, gap).orthant * (rows1 * rows2)

    def diagonal(self, rows: Float[Array, " n"]) -> Float[Array, " n"]:
        return rows**2 / 2
