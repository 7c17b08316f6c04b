# SPDX-License-Identifier: Apache-2.0
"""How large a learning rate the tangent kernel allows."""

import math

import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_count, check_finite, check_gram
from unlazy.core.entries import entry
from unlazy.linalg import eigh


@entry
def largest_learning_rate(
    K: Float[Array | np.ndarray, "n n"], *, rank: int | None = None, lam3: int | float = 0.0
) -> float:
    r"""The learning rate from which descent on the linear model diverges.

    The loss is the mean of squares without 1/2, plus $\lambda_3$ times the mean square of the part
    of the output outside of the first `rank` eigenvectors of K. With
    $\mu_1 \ge \mu_2 \ge \dots$ the eigenvalues of $K/n$, descent on $f_L$ converges exactly if

    $$\eta < \frac{1}{\mu_1} \quad\text{and}\quad \eta\, (1 + \lambda_3)\, \mu_{\text{rank}+1} < 1$$

    With $f_Q$ in the model the curvature changes on the way: use at most half of this rate.

    Source: NB-20, arXiv:2206.03688 (the paper gives no rates).

    Args:
        K: tangent kernel of the training points, such as `kernels.empirical_ntk_traced`.
        rank: number of eigenvectors that are not penalised; needed where `lam3` is not 0.
        lam3: the strength of the penalty.

    Returns:
        The smaller of the two limits; infinite where K is 0.

    Raises:
        ValueError: K is not a Gram matrix, or `lam3` is not 0 and there is no `rank`.

    Example:
        >>> K = np.diag([4.0, 2.0, 1.0, 1.0])  # K/n has eigenvalues 1, 1/2, 1/4, 1/4
        >>> largest_learning_rate(K), largest_learning_rate(K, rank=1, lam3=3.0)
        (1.0, 0.5)
    """
    check_gram(K, "K")
    check_finite(lam3, "lam3")
    if lam3 < 0:
        raise ValueError(f"`lam3` must be at least 0, got lam3={lam3}.")
    if rank is None:
        if lam3:
            raise ValueError(
                "`rank` must be given where `lam3` is not 0, got rank=None. "
                "For degree k it is the number of harmonics up to k, d + 1 for k = 1."
            )
        rank = 0
    check_count(rank, "rank", least=0)
    n = K.shape[0]
    values = eigh(K).values / n
    tail = (1 + lam3) * values[rank] if rank < n else 0.0
    steepest = max(values[0], tail)
    return float(1 / steepest) if steepest > 0 else math.inf
