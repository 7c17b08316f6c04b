# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.escape import norm_2p
from unlazy.papers.allenzhu_li_liang2019 import spread_ratio


def test_ratio_is_between_one_and_the_width_and_attains_both():
    # LG-14.
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert 1 <= spread_ratio(rng.normal(size=(7, 3)) ** 3) <= 7
    rows = rng.normal(size=(7, 3))
    assert spread_ratio(rows / np.linalg.norm(rows, axis=1, keepdims=True)) == pytest.approx(1)
    one = np.zeros((7, 3))
    one[4] = [1.0, 2.0, 3.0]
    assert spread_ratio(one) == pytest.approx(7)


def test_ratio_of_a_gaussian_matrix_and_by_norms():
    # 1 + 2/d; its standard error at m = 40000, d = 4 is below 0.01; 6 of them.
    W = np.random.default_rng(1).normal(size=(40_000, 4))
    assert spread_ratio(W) == pytest.approx(1.5, abs=0.06)
    small = W[:50]
    by_norms = 50 * float(norm_2p(small, 4)) ** 4 / np.linalg.norm(small) ** 4
    assert spread_ratio(small) == pytest.approx(by_norms, rel=1e-4)
    assert spread_ratio(1e-200 * W) == pytest.approx(spread_ratio(W), rel=1e-12)


def test_zero_and_bad_matrices_are_refused(no_shape_checker):
    with pytest.raises(ValueError, match="`W` must not be zero"):
        spread_ratio(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=r"`W` must have shape \(m, d\)"):
        spread_ratio(np.zeros(3))  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ValueError, match="`W` must be finite"):
        spread_ratio(np.full((2, 2), np.nan))
