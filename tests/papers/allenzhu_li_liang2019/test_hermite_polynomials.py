# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from scipy.special import binom, factorial, factorial2

from unlazy.papers.allenzhu_li_liang2019 import (
    hermite_affine,
    hermite_indicator,
    indicator_window,
    truncated_moments,
)
from unlazy.special import hermite


def density(z):
    return np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def unnormalised(i):
    return math.sqrt(factorial(i))


def test_the_polynomials_are_the_printed_sum():
    # LG-26, Definition A.5.
    x = np.linspace(-3, 3, 13)
    for i in range(13):
        terms = [
            (-1) ** m * x ** (i - 2 * m) / (factorial(m) * factorial(i - 2 * m) * 2**m)
            for m in range(i // 2 + 1)
        ]
        expected = factorial(i) * np.sum(terms, axis=0)
        found = unnormalised(i) * hermite(x, i)[i]
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-9 * unnormalised(i))


def test_powers_of_a_shift_beyond_a_float_spoil_no_entry():
    # 10^400 is no float, 10^400 / sqrt(400!) is one.
    A = hermite_affine(400, shift=-10.0)
    k = np.array([0, 398, 399, 400])
    first = np.exp(400 * np.log(10) - sum(map(np.log, range(1, 401))) / 2)
    expected = [first, 50 * np.sqrt(400 * 399), -10 * np.sqrt(400), 1]
    np.testing.assert_allclose(A[400, k], expected, rtol=1e-9)
    assert np.isfinite(A).all()


@pytest.mark.parametrize("s", [-1.3, 0.0, 0.7])
def test_moved_and_scaled_polynomials_expand_in_the_others(s):
    # LG-26: both identities, against the polynomials themselves.
    x = np.linspace(-2, 2, 9)
    h = hermite(x, 12)
    np.testing.assert_allclose(hermite_affine(12, shift=s) @ h, hermite(x + s, 12), atol=1e-9)
    np.testing.assert_allclose(hermite_affine(12, factor=s) @ h, hermite(s * x, 12), atol=1e-9)
    both = hermite_affine(12, factor=0.6, shift=s)
    np.testing.assert_allclose(both @ h, hermite(0.6 * x + s, 12), atol=1e-9)


def test_the_identities_hold_at_degrees_whose_factorials_overflow():
    x = np.linspace(-1, 1, 5)
    h = hermite(x, 200)
    np.testing.assert_allclose(hermite_affine(200, shift=0.1) @ h, hermite(x + 0.1, 200), atol=1e-9)
    # A factor below 1 cancels: a smaller degree, but beyond 170 the entries stay finite.
    assert np.isfinite(hermite_affine(200, factor=0.5)).all()


@pytest.mark.parametrize("b", [-1.7, -0.4, 0.3, 2.1])
def test_the_collapsed_formula_is_the_printed_one(b):
    # LG-27: max relative difference 4e-15 for i <= 12, which is the median over b in [-2.5, 2.5];
    # the sums cancel, and next to a root of the polynomial the quotient has no bound (5.8e-15 and
    # 1.9e-14 at the outer two of these). Of the sum without signs it is 1e-15 everywhere.
    p = hermite_indicator(np.array([b]), 12)[:, 0]
    for i in range(1, 13):
        r = np.arange(1 if i % 2 == 0 else 0, i, 2)
        k = (i - 1 - r) / 2
        odd = np.where(r > 0, factorial2(np.maximum(r, 1).astype(int)), 1.0)
        terms = (-1) ** k / odd * binom(i / 2 - 1, k) * b**r
        factor = float(factorial2(i - 1)) * density(b) if i > 1 else density(b)
        printed, size = factor * np.sum(terms), factor * np.sum(np.abs(terms))
        assert unnormalised(i) * p[i] == pytest.approx(printed, rel=0, abs=1e-15 * size)
        assert unnormalised(i) * p[i] == pytest.approx(printed, rel=4e-15 if abs(b) < 1 else 3e-14)


@pytest.mark.parametrize("x1", [-0.8, 0.1, 0.6])
def test_correlations_with_an_indicator_are_powers_by_quadrature(x1):
    # LG-27: quadrature against the formula, 1.7e-12. Gauss-Hermite over beta, panels over alpha.
    b = 0.4
    t, w = np.polynomial.hermite_e.hermegauss(30)
    w = w / math.sqrt(2 * math.pi)
    nodes, weights = np.polynomial.legendre.leggauss(200)
    alpha = b + 7 * (nodes + 1)
    weights = 7 * weights * density(alpha)
    values = hermite(x1 * alpha[:, None] + math.sqrt(1 - x1**2) * t, 12)
    means = np.einsum("iab,a,b->i", values, weights, w)
    p = hermite_indicator(np.array([b]), 12)[:, 0]
    np.testing.assert_allclose(means, p * x1 ** np.arange(13), atol=2e-12)
    L = truncated_moments(np.array([b]), 12)[:, 0]
    direct = np.array([np.sum(weights * alpha**i) for i in range(13)])
    np.testing.assert_allclose(L, direct, rtol=2e-13)


def test_window_moments_are_the_recorded_ones_and_above_their_bound():
    # LG-28: p'_1..p'_6, ratio to (i-1)!!/(200 i^2), its limit 25/(2 pi) for even degrees.
    found = np.array([unnormalised(i) * indicator_window(i).moment for i in range(1, 41)])
    recorded = [0.146830, 0.00482136, -0.0520814, -0.00369159, 0.0945434, 0.00824151]
    np.testing.assert_allclose(found[:6], recorded, rtol=1e-5)
    i = np.arange(1, 41)
    double = np.array([1.0, *(float(factorial2(k)) for k in range(1, 40))])
    ratio = np.abs(found) / (double / (200 * i**2))
    np.testing.assert_allclose(ratio[:6], [29, 3.86, 46.9, 3.94, 59.1, 3.96], rtol=0.02)
    assert (ratio >= 1).all()
    assert ratio[39] == pytest.approx(25 / (2 * math.pi), rel=1e-3)
    assert ratio[38] / ratio[8] == pytest.approx(math.sqrt(39 / 9), rel=0.02)


def test_windows_are_those_of_the_claim():
    assert indicator_window(3) == (-1 / 6, 1 / 6, 3)
    assert indicator_window(4) == (-1 / 8, 0.0, 4)
    with pytest.raises(ValueError, match="`i` must be an integer >= 1"):
        indicator_window(0)
