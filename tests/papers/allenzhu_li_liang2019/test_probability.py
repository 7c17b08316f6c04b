# SPDX-License-Identifier: Apache-2.0
"""The probability facts under the proofs, LG-35, against simulation or exact values."""

import jax
import jax.random as jr
import numpy as np
import pytest
from scipy import stats

from unlazy.escape import random_signs
from unlazy.papers.shared import worst_case_flips


def test_random_sums_have_the_stated_tails():
    # LG-35 (A.1): B = 1: .0205 and .176, B = 2: 0 and .004, B = 3: 0 and 0. 4000 trials, five
    # standard errors. The bound is below 1 from B = 3.4 on, as sqrt(8 log 4) = 3.33. At B = 3 the
    # ends are 7.4 and 4.3 standard deviations out: about one sample in ten has a trial beyond.
    rng = np.random.default_rng(0)
    m, trials = 1000, 4000
    n, alpha = rng.normal(size=(2, trials, m))
    h = (n >= 0) * np.tanh(alpha)
    a1, a2 = rng.normal(size=(2, trials, m))
    # tanh is odd, so that the sum with a1^2 is centred.
    sums = {"product": np.sum(a1 * a2 * h, axis=1), "square": np.sum(a1**2 * h, axis=1)}
    expected = {"product": (0.0205, 0.0), "square": (0.176, 0.004)}
    for name, total in sums.items():
        for k, B in enumerate((1, 2, 3, 4)):
            tail = np.mean(np.abs(total) >= B * (np.sqrt(m) + B))
            bound = 4 * np.exp(-(B**2) / 8)
            assert tail <= bound
            assert (bound < 1) == (B > 3.3)
            if k < 2:
                p = expected[name][k]
                assert tail == pytest.approx(p, abs=5 * np.sqrt(max(p, 1e-3) / trials))
            else:
                assert tail == 0  # as recorded for B = 3


def test_signed_inner_products_are_bounded_by_one_norm_of_each_kind():
    # LG-35 (C.9): 99 % quantile over ||x||_2 ||y||_inf measured 0.64; Hoeffding allows 3.26.
    m = 20_000
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(2, m))
    draw = jax.jit(jax.vmap(lambda key: random_signs(m, key=key)))
    signs = np.asarray(draw(jr.split(jr.key(0), 400)), np.float64)
    products = np.abs(signs @ (x * y))
    ratio = np.quantile(products, 0.99) / (np.linalg.norm(x) * np.max(np.abs(y)))
    assert ratio <= np.sqrt(2 * np.log(2 / 0.01))
    assert ratio == pytest.approx(0.64, abs=0.15)


@pytest.mark.parametrize("m", [16, 64, 256])
def test_wasserstein_distance_to_the_gaussian_does_not_grow(m):
    # LG-35 (A.3): Rademacher sums, W2 / C = 0.58 for every m: the lattice spacing 2 over sqrt(12).
    p = (np.arange(400_000) + 0.5) / 400_000
    lattice = 2 * stats.binom.ppf(p, m, 0.5) - m
    distance = np.sqrt(np.mean((lattice - np.sqrt(m) * stats.norm.ppf(p)) ** 2))
    assert distance == pytest.approx(0.58, abs=0.01)


@pytest.mark.parametrize("m2", [10**3, 10**4, 10**5])
def test_sign_changes_of_a_gaussian_vector_are_sparse_and_small(m2):
    # LG-35 (C.8), g'_2 = 0: ||x||_0 / (m2 r^(2/3)) measured 1.16-1.23 and ||x||_1 / (m2^(1/2)
    # r^(4/3)) measured 0.52-0.54, for the worst g'_1 of norm r. For the second one that is a step
    # of constant size c on the neurons with |g| < c/2, with limit (3/4) (2 pi)^(-1/6) = 0.552.
    r = 0.1
    zeros, ones = [], []
    for seed in range(20):
        g = np.sort(np.abs(np.random.default_rng(seed).normal(size=m2))) / np.sqrt(m2)
        zeros.append(worst_case_flips(g, r) / (m2 * r ** (2 / 3)))
        counts = np.arange(1, m2 + 1)
        c = r / np.sqrt(counts)
        left = np.cumsum(np.maximum(g, 0))
        ones.append(np.max(np.where(g < c, counts * c - left, 0)) / (m2**0.5 * r ** (4 / 3)))
    assert np.mean(zeros) == pytest.approx(1.24, rel=0.08)
    assert np.mean(ones) == pytest.approx(0.552, rel=0.08)
