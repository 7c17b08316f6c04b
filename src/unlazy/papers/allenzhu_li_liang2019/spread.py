# SPDX-License-Identifier: Apache-2.0
"""Figure 3 (b): how evenly the neurons share the norm of a weight matrix."""

import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_finite
from unlazy.core.entries import entry


@entry
def spread_ratio(W: Float[Array | np.ndarray, "m d"]) -> float:
    r"""How unevenly the rows of a matrix share its norm: 1 if all alike, m if one has it all.

    $$\frac{m \|W\|_{2,4}^4}{\|W\|_F^4} = \frac{m \sum_i r_i^2}{(\sum_i r_i)^2},
    \qquad r_i = \|w_i\|^2$$

    A Gaussian matrix with d columns has a ratio near $1 + 2/d$.

    Source: LG-14, arXiv:1811.04918 Figure 3 (b).

    Example:
        >>> spread_ratio(np.eye(3)), spread_ratio(np.array([[1.0], [0.0], [0.0]]))
        (1.0, 3.0)
    """
    W = np.asarray(W, np.float64)
    if W.ndim != 2 or W.size == 0:
        raise ValueError(f"`W` must have shape (m, d) with m, d >= 1, got W.shape={W.shape}.")
    check_finite(W, "W")
    largest = np.max(np.abs(W))
    if largest == 0:
        raise ValueError("`W` must not be zero, got a matrix of zeros, which has no spread.")
    r = np.sum((W / largest) ** 2, axis=1)  # scaled, so that no fourth power underflows
    return float(len(r) * np.sum(r**2) / np.sum(r) ** 2)
