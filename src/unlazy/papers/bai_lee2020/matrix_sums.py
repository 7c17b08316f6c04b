# SPDX-License-Identifier: Apache-2.0
"""Lemma 8: the largest operator norm of random-sign sums of symmetric matrices."""

import math

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.core.checks import as_array, check_count, check_finite, check_key
from unlazy.core.entries import entry
from unlazy.papers.shared.rademacher import RademacherEstimate, estimate


class MatrixRademacher(eqx.Module):
    """The mean of the largest operator norm over random signs, and the bounds above it."""

    exact: RademacherEstimate  # up to the sampling of the signs
    variance: float  # v, the largest norm of a sum of squares
    matrices: int  # m
    dimension: int  # d

    @property
    def sharp(self) -> float:
        """The bound with the constant of matrix Khintchine, sqrt(2 v log(2 m d))."""
        return math.sqrt(2 * self.variance * math.log(2 * self.matrices * self.dimension))

    @property
    def paper(self) -> float:
        """The bound of Lemma 8, 4 sqrt(v log(2 m d))."""
        return lemma_8(self.variance, self.matrices, self.dimension)


@entry
def matrix_rademacher(
    A: Float[Array | np.ndarray, "m n d d"], *, draws: int = 100, key: PRNGKeyArray
) -> MatrixRademacher:
    r"""Lemma 8 for any symmetric matrices: the largest norm of their sums with random signs.

    $$\mathbb E_\varepsilon \max_{r \le m} \Big\|\sum_{i \le n} \varepsilon_i A_{r,i}
    \Big\|_{\mathrm{op}} \le \sqrt{2 v \log(2md)} \le 4 \sqrt{v \log(2md)}, \qquad
    v = \max_r \Big\|\sum_i A_{r,i}^2\Big\|_{\mathrm{op}}$$

    The result has the mean on the left, by that many `draws` of the signs, the bound in the middle
    (`sharp`) and the paper's (`paper`). The matrices of one i share a sign, and those of one r are
    summed. `rademacher_operator_bound` is the paper's bound for the features of a network, which it
    never forms.

    Source: BL-20, arXiv:1910.01619 Lemma 8; the middle is Tropp's bound, arXiv:1004.4389, for the
    block-diagonal matrices of all r.

    Raises:
        ValueError: a matrix is not symmetric.

    Example:
        >>> found = matrix_rademacher(np.eye(2)[None, None], draws=2, key=jr.key(0))
        >>> print(found.exact.value, round(found.paper, 6), round(4 * math.sqrt(math.log(4)), 6))
        1.0 4.70964 4.70964
    """
    check_finite(A, "A")
    check_count(draws, "draws", least=2)
    check_key(key)
    A = np.asarray(as_array(A, "A"), np.float64)
    if A.ndim != 4 or A.shape[2] != A.shape[3] or not A.size:
        raise ValueError(f"`A` must have shape (m, n, d, d), got A.shape={A.shape}.")
    asymmetry = float(np.max(np.abs(A - np.swapaxes(A, 2, 3))))
    if asymmetry > 1e-6 * float(np.max(np.abs(A))):
        raise ValueError(
            "`A` must hold symmetric matrices, got entries that differ from their transpose by "
            f"{asymmetry:.3g}. Pass (A + A.swapaxes(2, 3)) / 2 if they should be."
        )
    m, n, d, _ = A.shape
    squares = np.einsum("rnij,rnjk->rik", A, A)
    signs = np.asarray(jr.rademacher(key, (draws, n), dtype=jnp.int8), np.float64)
    norms = [np.max(_operator_norms(np.einsum("n,rnij->rij", eps, A))) for eps in signs]
    return MatrixRademacher(
        exact=estimate(np.array(norms)),
        variance=float(np.max(_operator_norms(squares))),
        matrices=m,
        dimension=d,
    )


def lemma_8(variance: float, m: int, d: int) -> float:
    """The bound of Lemma 8 from the largest norm of a sum of squares of m sums of d by d."""
    return 4 * math.sqrt(max(variance, 0.0) * math.log(2 * m * d))


def _operator_norms(matrices: Float[np.ndarray, "m d d"]) -> Float[np.ndarray, " m"]:
    return np.max(np.abs(np.linalg.eigvalsh(matrices)), axis=1)
