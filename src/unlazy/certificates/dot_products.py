# SPDX-License-Identifier: Apache-2.0
"""A certificate against every dot-product kernel on a cube of any dimension, from the sample."""

import math
import operator
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Array, Float, Float64, Int

from unlazy.certificates.samples import check_degree, cube_sample, repeated_rows
from unlazy.certificates.verdicts import DotProductCertificate, check_target
from unlazy.core.entries import entry
from unlazy.special import krawtchouk, subsets

Sets = Sequence[Sequence[int]] | Int[np.ndarray, "s k"]
_MOST_SETS = 2_000_000
_ENTRIES = 2**24  # of the table of parities held at a time
_ROUNDING = 20 * 2.0**-52  # of eigenvalues, per point: all entries are at most 1
_MARGIN = 4.0  # times the error: a smaller eigenvalue may be zero
_PRIMES = (2**31 - 1, 2**31 - 19)  # products of two residues fit into int64


@entry
def dot_product(
    x: Float[Array | np.ndarray, "n d"],
    *,
    degree: int | None = None,
    sets: Sets | None = None,
    alpha: int | float = 0.3,
    threshold: int | float = 1 / 16,
) -> DotProductCertificate:
    r"""A lower bound on the risk of every dot-product kernel on a sample, whatever its weights.

    For any $K(x, x') = \kappa(\langle x, x'\rangle)$ and any target that contains $\alpha\chi_S$
    and nothing else of degree $k = |S|$, the risk of every $\sum_n w_n K(\cdot, x_n)$ is at least

    $$\alpha^2 (1 - P'_{SS}), \qquad P'_{SS} = v^\top K_k^+ v, \qquad v_n = \chi_S(x_n), \qquad
    K_k[n, n'] = \sum_{|T| = k} \chi_T(x_n) \chi_T(x_{n'})$$

    for inputs uniform on the cube: the part of degree k of $K(\cdot, x_n)$ is that of the
    Krawtchouk kernel up to a factor, so that $\kappa$ does not matter. Nothing is enumerated: the
    cost is $O(N^3)$ once and $O(N^2)$ per set. The bound covers networks of infinite width, whose
    kernels are such functions on the cube, but not finite ones at random weights. On average over
    S, $P'_{SS}$ is at most $N/\binom dk$. The entries of $K_k$ are integers: where eigenvalues are
    as small as rounding, its rank is computed modulo primes.

    Source: RN-24, arXiv:1905.10337; the kernel is `special.krawtchouk`.

    Args:
        x: the sample; each row is a corner of one cube.
        degree: k, for all sets of k coordinates; None if `sets` are given.
        sets: the sets, one per row, all of one size; None if `degree` is given.
        alpha: the size of the parity in the targets.
        threshold: t; a target is learnt when its risk is at most $t\alpha^2$.

    Example:
        >>> import jax, unlazy as ul
        >>> x = ul.data.cube(100, 30, key=jax.random.key(0))
        >>> found = dot_product(x, sets=[range(8)])
        >>> print(found.min_ratio > 0.999)
        True
    """
    check_target(alpha, threshold)
    signs, _ = cube_sample(x)
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
        dropped=whitener.dropped,
        uncertainty=whitener.uncertainty,
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
            "`sets` must hold sets of whole numbers, one per row, such as sets=[(0, 1, 2)], "
            f"got the row {row!r}."
        ) from None


class _Whitener(NamedTuple):
    """Rows whose product with the parities of S has the squared norm P'_SS."""

    rows: Float64[np.ndarray, "r n"]
    rank: int
    dropped: int
    uncertainty: float


def _whitener(signs: Float64[np.ndarray, "n d"], k: int) -> _Whitener:
    """Whiten by the Krawtchouk kernel, divided by its diagonal so that nothing overflows."""
    n, d = signs.shape
    distances = np.rint((d - signs @ signs.T) / 2).astype(int)
    values, vectors = np.linalg.eigh(krawtchouk(d, k, normalized=True)[distances])
    error = _ROUNDING * n
    kept = values > _MARGIN * error
    rank = int(np.sum(kept))
    rows = vectors[:, kept].T / np.sqrt(values[kept])[:, None]
    full = rank == min(n, math.comb(d, k))
    dropped = 0 if full else max(0, _integer_rank(distances, d, k) - rank)
    # With F the error of the kernel and x = K^+ v, the share moves by at most 3 |F| |x|^2, and
    # |x|^2 is at most the share over the smallest eigenvalue.
    uncertainty = 4 * error / float(np.min(values[kept])) if rank else 0.0
    return _Whitener(rows, rank, dropped, uncertainty)


def _integer_rank(distances: Int[np.ndarray, "n n"], d: int, k: int) -> int:
    """The rank of the Krawtchouk kernel, whose entries are integers, by elimination mod primes.

    It is right unless each prime divides all minors of that size, which for a given sample has a
    probability of about one in their product.
    """
    values = [
        sum((-1) ** i * math.comb(j, i) * math.comb(d - j, k - i) for i in range(k + 1))
        for j in range(d + 1)
    ]
    return max(
        _rank_modulo(np.array([value % p for value in values], np.int64)[distances], p)
        for p in _PRIMES
    )


def _rank_modulo(A: Int[np.ndarray, "n n"], p: int) -> int:
    A, rank = A.copy(), 0
    for column in range(A.shape[1]):
        below = np.flatnonzero(A[rank:, column])
        if not len(below):
            continue
        A[[rank, rank + below[0]]] = A[[rank + below[0], rank]]
        pivot = A[rank, column:] * pow(int(A[rank, column]), -1, p) % p
        A[rank + 1 :, column:] -= A[rank + 1 :, column, None] * pivot % p
        A[rank + 1 :, column:] %= p
        rank += 1
    return rank


def _parities(
    signs: Float64[np.ndarray, "n d"], sets: Int[np.ndarray, "s k"]
) -> Float64[np.ndarray, "n s"]:
    product = signs[:, sets[:, 0]]
    for j in range(1, sets.shape[1]):
        product = product * signs[:, sets[:, j]]
    return product
