# SPDX-License-Identifier: Apache-2.0
import math

import jax
import numpy as np
import pytest

from unlazy.kernels import relu_gram
from unlazy.papers.arora2019 import nondegeneracy

POOL = np.random.default_rng(4).standard_normal((60, 5))
POOL /= np.linalg.norm(POOL, axis=1, keepdims=True)


def test_the_estimate_is_the_largest_value_that_all_but_a_share_of_draws_reach():
    found = nondegeneracy(POOL, 12, delta=0.1, draws=20, key=jax.random.key(1))
    assert found.values.shape == (20,)
    assert np.mean(found.values >= found.smallest_eigenvalue) >= 0.9
    larger = found.values[found.values > found.smallest_eigenvalue]
    assert np.mean(found.values >= larger[0]) < 0.9
    # Draws differ, and a key decides them.
    assert len(np.unique(found.values)) == 20
    again = nondegeneracy(POOL, 12, delta=0.1, draws=20, key=jax.random.key(1))
    np.testing.assert_array_equal(again.values, found.values)


def test_the_estimate_lies_between_the_pool_and_the_nearest_pair_and_falls_with_n():
    # Interlacing: the kernel of a subset has no smaller eigenvalue than that of the pool. The
    # smallest one of a pair is 1/2 - |H_ij|, the least of which bounds the pool.
    H = np.asarray(relu_gram(POOL))
    whole = nondegeneracy(POOL, 60, delta=0.5, draws=2, key=jax.random.key(0))
    assert whole.smallest_eigenvalue == pytest.approx(np.linalg.eigvalsh(H)[0], rel=1e-6)
    nearest = 0.5 - np.max(np.abs(H - np.diag(np.diag(H))))
    assert whole.smallest_eigenvalue <= nearest
    some = nondegeneracy(POOL, 12, delta=0.1, draws=20, key=jax.random.key(1))
    assert np.all(some.values >= whole.smallest_eigenvalue * (1 - 1e-6))
    assert some.values.mean() > 2 * whole.smallest_eigenvalue
    # Homogeneous of degree two.
    scaled = nondegeneracy(3 * POOL, 12, delta=0.1, draws=20, key=jax.random.key(1))
    np.testing.assert_allclose(scaled.values, 9 * some.values, rtol=1e-9)


def test_a_pool_of_pairs_is_degenerate_as_often_as_combinatorics_says():
    # 15 inputs, each twice: 4 of 30 rows have no pair among them with probability
    # C(15, 4) 2^4 / C(30, 4) = 0.797. Of 200 draws the share without one has a standard error of
    # 0.028; 5 of them fail with probability below 1e-6.
    pairs = np.repeat(POOL[:15], 2, axis=0)
    found = nondegeneracy(pairs, 4, delta=0.1, draws=200, key=jax.random.key(2))
    expected = math.comb(15, 4) * 2**4 / math.comb(30, 4)
    assert np.mean(found.values > 0) == pytest.approx(expected, abs=5 * 0.029)
    assert found.smallest_eigenvalue == 0  # a fifth of the draws is singular, more than delta
    assert found.values[80] > 1e-3  # and at delta = 0.4 it would not be


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n": 61}, "`n` must be an integer from 1 to 60, got n=61"),
        ({"draws": 19}, "`draws` must be at least 1/delta=20, got draws=19"),
        ({"delta": 0.0}, "`delta` must be a failure probability"),
        ({"x": POOL[0]}, r"`x` must have shape \(n, d\)"),
    ],
)
def test_bad_arguments_are_named(change, message, no_shape_checker):
    values = {"x": POOL, "n": 5, "delta": 0.05, "draws": 20, "key": jax.random.key(0)}
    with pytest.raises(ValueError, match=message):
        nondegeneracy(**values | change)
