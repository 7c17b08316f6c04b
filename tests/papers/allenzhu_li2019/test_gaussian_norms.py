# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import numpy as np
import pytest

from unlazy.papers.allenzhu_li2019 import sparse_gaussian_norm


@pytest.mark.parametrize(("n", "m"), [(1, 400), (30, 200), (200, 30)])
def test_spectral_norms_are_below_the_bound_as_often_as_it_says(n, m):
    # Proposition B.2, first part: s = m. At failure = 1/2 the median of 200 norms is below the
    # bound; were the true probability only 1/2, fewer than 60 of 200 would be below with 1e-8.
    rng = np.random.default_rng([n, m])
    norms = np.array([np.linalg.norm(rng.standard_normal((n, m)), 2) for _ in range(200)])
    assert np.mean(norms <= sparse_gaussian_norm(n, m, failure=0.5)) > 0.5
    strict = sparse_gaussian_norm(n, m, failure=1e-9)
    assert norms.max() < strict < 1.45 * norms.mean()  # and no more than 45% above


@pytest.mark.parametrize(("n", "m", "s"), [(1, 300, 1), (1, 300, 40), (1, 300, 300), (8, 50, 1)])
def test_sparse_norms_are_below_the_bound_and_within_a_small_factor(n, m, s):
    # Exact: the s largest entries of one row, or the longest column. Failure 1e-6 per draw.
    rng = np.random.default_rng([n, m, s])
    for _ in range(20):
        M = rng.standard_normal((n, m))
        exact = (
            math.sqrt(np.sum(np.sort(M[0] ** 2)[-s:]))
            if n == 1
            else np.linalg.norm(M, axis=0).max()
        )
        assert exact < sparse_gaussian_norm(n, m, s, failure=1e-6) < 3.3 * exact


def test_pairs_of_columns_are_below_the_bound_and_the_dense_bound_is_far_above():
    # s = 2 by all pairs: failure 1e-6.
    rng = np.random.default_rng(2)
    M = rng.standard_normal((5, 60))
    exact = max(
        np.linalg.norm(M[:, list(pair)], 2) for pair in itertools.combinations(range(60), 2)
    )
    bound = sparse_gaussian_norm(5, 60, 2, failure=1e-6)
    assert exact < bound < 2.5 * exact
    assert sparse_gaussian_norm(5, 10**6, 2) < 0.02 * sparse_gaussian_norm(5, 10**6)


def test_the_bound_is_of_the_order_of_the_paper():
    # sqrt(n) + sqrt(s) log(m), with a constant below 2 for every s up to m / log(m)^2.
    for m in (10**3, 10**6):
        for s in (1, 10, int(m / math.log(m) ** 2)):
            assert sparse_gaussian_norm(7, m, s) < 2 * (math.sqrt(7) + math.sqrt(s) * math.log(m))
    with pytest.raises(ValueError, match="`sparsity` must be at most m=5, got sparsity=6"):
        sparse_gaussian_norm(3, 5, 6)
    with pytest.raises(ValueError, match="`failure` must be a failure probability in"):
        sparse_gaussian_norm(3, 5, failure=1.0)
