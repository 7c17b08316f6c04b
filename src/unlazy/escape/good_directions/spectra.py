# SPDX-License-Identifier: Apache-2.0
"""The spectrum of the tangent features: its blocks, its gaps, and its limit at infinite width."""

import equinox as eqx
import numpy as np
from jaxtyping import Float, Float64

from unlazy.activations import Activation
from unlazy.core.checks import MOST_IN_TABLE, check_count, check_finite
from unlazy.core.entries import entry
from unlazy.nets.checking import as_activation
from unlazy.special import gegenbauer_coefficients, harmonic_count, harmonic_dimension

_NOTHING = 1e-10  # of the largest eigenvalue; gaps among smaller ones are rounding


class SpectralBlocks(eqx.Module):
    r"""The three blocks of a spectrum: informative, harmful, and free directions.

    `edges` are $n_k$ and $n_{2k}$, the numbers of harmonics of degree at most k and 2k, as far as
    the spectrum reaches. `gaps` are the ratios of the eigenvalues on the two sides of each edge,
    and `found` the positions of equally many largest gaps in the spectrum itself.
    """

    edges: tuple[int, ...]
    gaps: tuple[float, ...]
    found: tuple[int, ...]
    tail: float  # mean eigenvalue beyond the last edge

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of eigenvalues between the edges."""
        return tuple(np.diff((0, *self.edges)).tolist())


@entry
def spectral_blocks(
    eigenvalues: Float[np.ndarray, " p"], d: int, degree: int, *, parameters: int | None = None
) -> SpectralBlocks:
    r"""Cut a spectrum of tangent features after the harmonics of degree k and of degree 2k.

    Source: NB-9 and NB-33, arXiv:2206.03688.

    Args:
        eigenvalues: of the covariance, largest first, more than $n_k$ of them.
        d: dimension of the inputs.
        degree: k. With k = 0 the block between the edges is empty, and there is one edge.
        parameters: number of directions in all, over which the tail beyond the last edge is
            averaged; that of the eigenvalues when None. Pass m d to count the null space of the
            twins, as NB-33.

    Example:
        >>> blocks = spectral_blocks(np.array([9.0, 3.0, 3.0, 3.0, 1.0, 1e-4]), 3, 1)
        >>> blocks.sizes, blocks.gaps, blocks.found
        ((4,), (3.0,), (1,))
    """
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    values = np.asarray(eigenvalues, np.float64)
    if parameters is not None:
        check_count(parameters, "parameters", least=len(values))
    ends = sorted({harmonic_count(d, degree), harmonic_count(d, 2 * degree)})
    edges = tuple(n for n in ends if n < len(values))
    if not edges:
        raise ValueError(
            f"`eigenvalues` must be more than n_k = {harmonic_count(d, degree)}, the number of "
            f"harmonics up to degree={degree}, got {len(values)}. Use more points."
        )
    beyond = (len(values) if parameters is None else parameters) - edges[-1]
    gaps = tuple(float(values[n - 1] / max(values[n], 1e-300)) for n in edges)
    tail = float(values[edges[-1] :].sum() / beyond)
    return SpectralBlocks(edges, gaps, _largest_gaps(values, len(edges)), tail)


@entry
def spectral_gap(eigenvalues: Float[np.ndarray, " p"]) -> int:
    r"""The number of eigenvalues before the largest gap, in ratio.

    $$\arg\max_{j \le p/2} \lambda_j / \lambda_{j+1}$$

    among eigenvalues above 1e-10 of the largest. The second half of the spectrum of a sample is too
    noisy to count.

    Source: NB section 9, item 1.

    Example:
        >>> spectral_gap(np.array([5.0, 4.0, 0.3, 0.2, 0.1]))
        2
    """
    values = np.asarray(eigenvalues, np.float64)
    if values.ndim != 1 or len(values) < 2:
        raise ValueError(
            "`eigenvalues` must be at least two, for a gap between them, got "
            f"eigenvalues.shape={values.shape}."
        )
    check_finite(values, "eigenvalues")
    return _largest_gaps(values, 1)[0]


@entry
def limit_eigenvalues(
    activation: str | Activation, d: int, degree: int
) -> Float64[np.ndarray, " q"]:
    r"""Eigenvalues of the infinite-width tangent kernel on harmonics of degree 0 to `degree`.

    $$\lambda_i = \frac{d}{N_i} \Big[ c_{i-1}^2 N_{i-1} \frac{i+d-3}{2i+d-4}
    + c_{i+1}^2 N_{i+1} \frac{i+1}{2i+d} \Big]$$

    with $c_l$ of $\sigma'$, for inputs uniform on the sphere of radius $\sqrt d$ in $d \ge 3$
    dimensions and unit weights; each has multiplicity $N_i$ (`special.harmonic_dimension`).

    Source: NB-11, arXiv:2206.03688.

    Example:
        >>> import unlazy as ul
        >>> print(limit_eigenvalues(ul.activation("sigmoid", shift=1.5), 30, 2))
        [0.00424551 0.02203157 0.00026715]
    """
    check_count(d, "d", least=3)
    check_count(degree, "degree", least=0, most=MOST_IN_TABLE)
    energy = gegenbauer_coefficients(as_activation(activation), d, degree + 1, 1) ** 2
    i = np.arange(degree + 1)
    above = energy[1:] * (i + 1) / (2 * i + d)
    below = np.zeros(degree + 1)
    below[1:] = energy[:-2] * (i[1:] + d - 3) / (2 * i[1:] + d - 4)
    return d * (below + above) / [float(harmonic_dimension(d, k)) for k in range(degree + 1)]


def _largest_gaps(values: Float64[np.ndarray, " p"], count: int) -> tuple[int, ...]:
    kept = max(2, int(np.sum(values > _NOTHING * values[0])))
    head = values[: min(kept, len(values) // 2 + 1)]
    ratios = head[:-1] / np.maximum(head[1:], 1e-300)
    return tuple(sorted((np.argsort(-ratios, kind="stable")[:count] + 1).tolist()))
