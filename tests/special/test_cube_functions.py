# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.data import corners
from unlazy.special import krawtchouk, subset_masks, subsets, walsh_hadamard


def parities(x, k):
    return np.prod(x[:, subsets(x.shape[1], k)], axis=2)


@pytest.mark.parametrize(("d", "k"), [(5, 0), (5, 2), (7, 7), (10, 3)])
def test_krawtchouk_is_the_sum_of_products_of_parities(d, k):
    x = corners(d)
    chi = parities(x, k) if k else np.ones((len(x), 1))
    distance = np.rint((d - x @ x[0]) / 2).astype(int)
    np.testing.assert_array_equal(krawtchouk(d, k)[distance], chi @ chi[0])
    formula = [
        sum((-1) ** i * math.comb(j, i) * math.comb(d - j, k - i) for i in range(k + 1))
        for j in range(d + 1)
    ]
    np.testing.assert_array_equal(krawtchouk(d, k), formula)


def test_krawtchouk_polynomials_are_orthogonal_under_the_binomial_law():
    d = 12
    K = np.array([krawtchouk(d, k) for k in range(d + 1)])
    weights = np.array([math.comb(d, j) for j in range(d + 1)]) / 2.0**d
    np.testing.assert_allclose((K * weights) @ K.T, np.diag(K[:, 0]), atol=1e-9)


def test_normalized_values_do_not_overflow():
    K = krawtchouk(1100, 550, normalized=True)  # C(1100, 550) is beyond a float
    assert K[0] == 1.0
    assert np.max(np.abs(K)) <= 1.0
    assert K[2] == pytest.approx(-1 / 1099, rel=1e-12)
    np.testing.assert_allclose(krawtchouk(9, 4, normalized=True), krawtchouk(9, 4) / 126)


@pytest.mark.parametrize("d", [0, 1, 5, 8])
def test_the_transform_gives_the_coefficients_of_parities(d):
    x = corners(d) if d else np.zeros((1, 0))
    masks = np.arange(2**d)
    inside = masks[:, None] >> np.arange(d) & 1 == 1
    chi = np.array([np.prod(np.where(rows, x, 1.0), axis=1) for rows in inside])
    f = np.random.default_rng(d).standard_normal((2**d, 3))
    np.testing.assert_allclose(walsh_hadamard(f), chi @ f / 2**d, atol=1e-13)
    # Its own inverse, up to the factor; and Parseval.
    np.testing.assert_allclose(walsh_hadamard(walsh_hadamard(f)) * 2**d, f, atol=1e-13)
    np.testing.assert_allclose(np.sum(walsh_hadamard(f) ** 2, 0), np.mean(f**2, 0), rtol=1e-12)


def test_masks_name_the_sets_in_the_order_of_the_transform():
    d, k = 6, 3
    chi = parities(corners(d), k)
    spectrum = walsh_hadamard(chi)
    np.testing.assert_array_equal(spectrum[subset_masks(d, k)], np.eye(math.comb(d, k)))
    assert subsets(5, 0).shape == (1, 0)


def test_no_functions_have_no_coefficients():
    assert walsh_hadamard(np.zeros((8, 0))).shape == (8, 0)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"`values` must have 2.d rows, one a corner, got 6"):
        walsh_hadamard(np.zeros(6))
    with pytest.raises(ValueError, match="`degree` must be at most d=3"):
        krawtchouk(3, 4)
