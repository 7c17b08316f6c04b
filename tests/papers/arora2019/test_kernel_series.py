# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.papers.arora2019 import ntk_series_coefficients


def test_coefficients_are_those_of_the_taylor_series_of_the_kernel():
    # AR-7: c (pi - arccos c) / (2 pi) = c/4 + c arcsin(c)/(2 pi); arcsin's series by factorials.
    c = ntk_series_coefficients(30)
    for p in range(2, 31, 2):
        l = p // 2 - 1
        arcsin = math.factorial(2 * l) / (4**l * math.factorial(l) ** 2 * (2 * l + 1))
        assert c[p] == pytest.approx(arcsin / (2 * math.pi), rel=1e-13)
    assert c[1] == 0.25
    assert c[0] == 0
    assert not c[3::2].any()
    np.testing.assert_allclose(
        c[[2, 4, 6]], [1 / (2 * np.pi), 1 / (12 * np.pi), 3 / (80 * np.pi)], rtol=1e-14
    )


def test_coefficients_sum_to_one_half_with_a_slow_tail():
    # The tail from degree q on is sum_{2l > q} ~ q^{-1/2}: quadrupling q halves it.
    tails = [0.5 - ntk_series_coefficients(q).sum() for q in (1000, 4000, 16000)]
    assert tails[2] > 0
    np.testing.assert_allclose([tails[0] / tails[1], tails[1] / tails[2]], 2, rtol=1e-3)


def test_sharp_factors_grow_like_the_three_quarter_power():
    # AR-19c: fitted slope 0.757 on p = 50 .. 400.
    p = np.arange(50, 401, 2)
    factor = ntk_series_coefficients(400)[p] ** -0.5
    slope = np.polyfit(np.log(p), np.log(factor), 1)[0]
    assert slope == pytest.approx(0.757, abs=0.002)
    named = ntk_series_coefficients(10)[[1, 2, 4, 6, 8, 10]] ** -0.5
    np.testing.assert_allclose(named, [2, 2.5066, 6.1400, 9.1529, 11.8635, 14.3808], atol=6e-5)


def test_small_degrees_and_bad_ones():
    assert ntk_series_coefficients(0).tolist() == [0.0]
    assert ntk_series_coefficients(1).tolist() == [0.0, 0.25]
    with pytest.raises(ValueError, match="`degree` must be an integer >= 0, got degree=-1"):
        ntk_series_coefficients(-1)
