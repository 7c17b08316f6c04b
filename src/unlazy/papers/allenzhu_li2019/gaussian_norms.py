# SPDX-License-Identifier: Apache-2.0
"""Proposition B.2: the norm of a Gaussian matrix on vectors of few nonzero entries."""

import math

from scipy.special import gammaln

from unlazy.core.checks import check_count
from unlazy.core.entries import entry
from unlazy.papers.shared.conditions import check_delta


@entry
def sparse_gaussian_norm(
    n: int, m: int, sparsity: int | None = None, *, failure: float = 0.05
) -> float:
    r"""A bound on the norm of a Gaussian matrix on all vectors with s nonzero entries.

    For M of shape (n, m) with independent N(0, 1) entries, with probability $1 - \delta$

    $$\max_{\|v\|_0 \le s,\ \|v\| = 1} \|M v\| \le \sqrt n + \sqrt s +
    \sqrt{2 \ln \binom{m}{s} + 2 \ln \tfrac1\delta}$$

    With s = m, where the binomial is 1, it is the bound on the spectral norm. The third term is at
    most of the order of $\sqrt{s \log m}$. The proof of Theorem 1 applies it to $\sqrt m A$ and the
    neurons whose sign has changed.

    Source: arXiv:1905.10337 Proposition B.2, whose constants are hidden; here they are those of
    Gaussian concentration (Davidson and Szarek, "Local operator theory, random matrices and Banach
    spaces", 2001), with a union over the supports.

    Args:
        n: rows.
        m: columns.
        sparsity: s, from 1 to m; None for m.
        failure: $\delta$.

    Raises:
        ValueError: a number is not a count, `sparsity` is above m, or `failure` not in (0, 1).

    Example:
        >>> print(round(sparse_gaussian_norm(3, 10_000, 100), 2), "of", round(3**0.5 + 100, 2))
        45.19 of 101.73
    """
    for name, count in (("n", n), ("m", m)):
        check_count(count, name)
    s = m if sparsity is None else sparsity
    check_count(s, "sparsity")
    if s > m:
        raise ValueError(f"`sparsity` must be at most m={m}, got sparsity={s}.")
    check_delta(failure, "failure")
    supports = float(gammaln(m + 1) - gammaln(s + 1) - gammaln(m - s + 1))
    return math.sqrt(n) + math.sqrt(s) + math.sqrt(2 * (supports - math.log(failure)))
