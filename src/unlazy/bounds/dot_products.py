# SPDX-License-Identifier: Apache-2.0
"""A certificate against every dot-product kernel on a cube of any dimension, from the sample."""

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Float64, Int

from unlazy.bounds.cube_samples import check_degree, cube_sample, repeated_rows
from unlazy.bounds.parity_certificates import THRESHOLD, DotProductCertificate, check_target
from unlazy.special import krawtchouk, subsets

Sets = Sequence[Sequence[int]] | Int[np.ndarray, "s k"]
_MOST_SETS = 2_000_000
_ENTRIES = 2**24  # of the table of parities held at a time
_CUT = 1e-9  # relative, of the eigenvalues


def dot_product_certificate(
    x: Float[Array | np.ndarray, "n d"],
    *,
    degree: int | None = None,
    sets: Sets | None = None,
    alpha: int | float = 0.3,
    threshold: int | float = THRESHOLD,
) -> DotProductCertificate:
    r"""A lower bound on the risk of every dot-product kernel on a sample, whatever its weights.

    For any $K(x, x') = \kappa(\langle x, x'\rangle)$ and any target that contains $\alpha\chi_S$
    and nothing else of degree $k = |S|$, the risk of every $\sum_n w_n K(\cdot, x_n)$ is at least

    $$\alpha^2 (1 - P'_{SS}), \qquad P'_{SS} = v^\top K_k^+ v, \qquad v_n = \chi_S(x_n), \qquad
    K_k[n, n'] = \sum_{|T| = k} \chi_T(x_n) \chi_T(x_{n'})$$

    for inputs uniform on the cube: the part of degree k of $K(\cdot, x_n)$ is that of the
    Krawtchouk kernel up to a factor, so that $\kappa$ does not matter. Nothing is enumerated, at a
    cost of $O(N^3)$ once and $O(N^2)$ a set. It covers networks of infinite width, whose kernels
    are such functions on the cube, but not finite ones at random weights. On average over S,
    $P'_{SS}$ is at most $N/\binom dk$.

    Source: RN-24, arXiv:1905.10337; the kernel is `special.krawtchouk`.

    Args:
        x: the sample, corners of one cube, one a row.
        degree: k, for all sets of k coordinates; or else
        sets: the sets, one a row, all of one size.
        alpha: the size of the parity in the targets.
        threshold: t; a target is learnt when its risk is at most $t\alpha^2$.

    Raises:
        ValueError: `x` is not on a cube, not one of `degree` and `sets` is given, or there are too
            many sets of that degree to list.

    Example:
        >>> import jax, unlazy as ul
        >>> x = ul.data.cube(100, 30, key=jax.random.key(0))
        >>> found = dot_product_certificate(x, sets=[range(8)])
        >>> print(found.min_ratio > 0.999)
        True
    """
    check_target(alpha, threshold)
    signs = cube_sample(x).signs
    n, d = signs.shape
    chosen = _sets(degree, sets, d)
    k = chosen.shape[1]
    # A point opposite to another gives the same parities of degree k, up to one sign.
    redundant = repeated_rows(signs, antipodal=True)
    kept = np.delete(signs, redundant[:, 0], axis=0)
    whitener = _whitener(kept, k)
    step = max(1, _ENTRIES // len(kept))
    parts = [
        np.sum((whitener.rows @ _parities(kept, chosen[i : i + step])) ** 2, axis=0)
        for i in range(0, len(chosen), step)
    ]
    return DotProductCertificate(
        sets=chosen,
        captured=np.concatenate(parts) * (1 / math.comb(d, k)),
        inputs=d,
        functions=n,
        rank=whitener.rank,
        alpha=abs(float(alpha)),
        threshold=float(threshold),
        redundant=redundant,
    )


def _sets(degree: int | None, sets: Sets | None, d: int) -> Int[np.ndarray, "s k"]:
    if (degree is None) == (sets is None):
        raise ValueError(f"`degree` or `sets` must be given, not both, got degree={degree}.")
    if degree is not None:
        check_degree(degree, d)
        if math.comb(d, degree) > _MOST_SETS:
            raise ValueError(
                f"`degree` must give at most {_MOST_SETS} sets, got degree={degree}, of which "
                f"there are {math.comb(d, degree)} in d={d} coordinates. Pass some as `sets`."
            )
        return subsets(d, degree)
    rows = [_indices(row) for row in (() if sets is None else sets)]
    if not rows or len({len(row) for row in rows}) > 1:
        raise ValueError(f"`sets` must be at least one set, all of one size, got sets={sets}.")
    check_degree(len(rows[0]), d)
    for row in rows:
        if len(set(row)) < len(row) or row[0] < 0 or row[-1] >= d:
            raise ValueError(
                f"`sets` must hold distinct coordinates from 0 to {d - 1}, got the set {row}."
            )
    return np.array(rows)


def _indices(row: Any) -> list[int]:
    try:
        return sorted(operator.index(j) for j in row)
    except TypeError:
        raise ValueError(
            "`sets` must hold sets of whole numbers, one a row, such as sets=[(0, 1, 2)], "
            f"got the row {row!r}."
        ) from None


class _Whitener(NamedTuple):
    """Rows whose product with parities has the wanted squared norm."""

    rows: Float64[np.ndarray, "r n"]
    rank: int


def _whitener(signs: Float64[np.ndarray, "n d"], k: int) -> _Whitener:
    """From the Krawtchouk kernel, divided by its diagonal so that nothing overflows."""
    d = signs.shape[1]
    distances = np.rint((d - signs @ signs.T) / 2).astype(int)
    values, vectors = np.linalg.eigh(krawtchouk(d, k, normalized=True)[distances])
    kept = values > _CUT * values[-1]
    rows = vectors[:, kept].T / np.sqrt(values[kept])[:, None]
    return _Whitener(rows, int(np.sum(kept)))


def _parities(
    signs: Float64[np.ndarray, "n d"], sets: Int[np.ndarray, "s k"]
) -> Float64[np.ndarray, "n s"]:
    product = signs[:, sets[:, 0]]
    for j in range(1, sets.shape[1]):
        product = product * signs[:, sets[:, j]]
    return product
