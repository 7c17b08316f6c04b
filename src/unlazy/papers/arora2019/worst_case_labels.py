# SPDX-License-Identifier: Apache-2.0
"""Section 4: the labels that a kernel learns most slowly, and that cost it most."""

import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.checks import check_gram, check_positive
from unlazy.core.entries import entry
from unlazy.linalg import Eigen, eigh


@entry
def worst_labels(
    H: Float[Array | np.ndarray, "n n"], *, norm: int | float = 1.0
) -> Float64[np.ndarray, " n"]:
    r"""The labels of a given norm that train most slowly: the last eigenvector of the kernel.

    $$y = c\, v_n, \qquad H v_n = \lambda_0 v_n, \qquad
    \|y - u(k)\| = (1 - \eta\lambda_0)^k\, c, \qquad y^\top H^{-1} y = \frac{c^2}{\lambda_0}$$

    with $\lambda_0$ the smallest eigenvalue of `H` and $c$ the `norm`. No labels of that norm have
    a larger residual after k steps of any rate up to $1/\lambda_{\max}$, and none have a larger
    label energy. The paper takes norm 1; a norm of $\sqrt n$ is that of labels $\pm 1$, and makes
    curves comparable. The largest entry is positive.

    Source: AR-35 and AR-71, arXiv:1901.08584 section 4 and Figure 1.

    Example:
        >>> print(worst_labels(np.diag([0.5, 0.1, 0.3]), norm=2))
        [0. 2. 0.]
    """
    check_gram(H)
    check_positive(norm, "norm")
    return worst_labels_from(eigh(H), float(norm))


def worst_labels_from(eigen: Eigen, norm: float) -> Float64[np.ndarray, " n"]:
    """`worst_labels`, where the decomposition is at hand."""
    return norm * np.asarray(eigen.vectors)[:, -1]
