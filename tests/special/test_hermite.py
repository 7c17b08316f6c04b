# SPDX-License-Identifier: Apache-2.0
import math

import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval

from unlazy.papers.bai_lee2020 import relu_series
from unlazy.special import gaussian_rule, hermite, hermite_coefficients


def relu(z):
    return jnp.maximum(z, 0)


def test_polynomials_are_numpys_over_the_root_of_the_factorial():
    t = np.linspace(-4, 4, 33).reshape(3, 11)
    values = hermite(t, 9)
    assert values.shape == (10, 3, 11)
    for k in range(10):
        expected = hermeval(t, [0] * k + [1]) / math.sqrt(math.factorial(k))
        np.testing.assert_allclose(values[k], expected, rtol=1e-11, atol=1e-12)


def test_polynomials_are_orthonormal_under_a_gaussian():
    nodes, weights = gaussian_rule()
    h = hermite(nodes, 14)  # at 30 the rule ends too early: 1e-6
    np.testing.assert_allclose((h * weights) @ h.T, np.eye(15), atol=2e-13)


def test_correlated_gaussians_give_a_power_of_the_correlation():
    # E[h_j(g) h_k(u g + sqrt(1 - u^2) g')] = 1{j = k} u^k, by a product rule.
    nodes, weights = np.polynomial.hermite_e.hermegauss(20)
    weights = weights / weights.sum()
    u = 0.6
    other = u * nodes[:, None] + math.sqrt(1 - u**2) * nodes[None, :]
    inner = np.einsum("kij,j->ki", hermite(other, 5), weights)
    table = np.einsum("ji,ki,i->jk", hermite(nodes, 5), inner, weights)
    np.testing.assert_allclose(table, np.diag(u ** np.arange(6)), atol=1e-12)


def test_the_coefficients_of_relu_are_the_signed_roots_of_its_series():
    # BL-34: eta_0 = 1/sqrt(2 pi), eta_1 = 1/2, eta_2l = (-1)^(l-1) sqrt(c_2l); 1e-15 for p <= 8.
    c = relu_series(12)
    sign = np.array([1, 1] + [(-1) ** (p // 2 - 1) if p % 2 == 0 else 1 for p in range(2, 13)])
    np.testing.assert_allclose(hermite_coefficients(relu, 12), sign * np.sqrt(c), atol=2e-15)


def test_the_series_is_the_closed_form():
    # BL-33: on |u| <= .9 with 200 terms, 7e-16.
    u = np.linspace(-0.9, 0.9, 61)
    theta = np.arccos(u)
    closed = (np.sin(theta) + u * (np.pi - theta)) / (2 * np.pi)
    series = np.polynomial.polynomial.polyval(u, relu_series(200))
    np.testing.assert_allclose(series, closed, atol=2e-15)
    # At u = 1 the series sums to E relu^2 = 1/2; the tail falls like p^(-3/2).
    assert relu_series(20_000).sum() == pytest.approx(0.5, abs=1e-6)


def test_the_coefficients_are_above_the_papers_lower_bound():
    c = relu_series(60)
    p = np.array([0, 1, *range(2, 61, 2)])
    assert (c[p] >= 1 / (2 * np.pi * np.maximum(p, 1) ** 3.0)).all()
    assert not c[3::2].any()
    assert relu_series(0).tolist() == [1 / (2 * math.pi)]


def test_bad_degrees_are_refused():
    for function in (lambda k: hermite(np.zeros(2), k), relu_series):
        with pytest.raises(ValueError, match="`degree` must be an integer >= 0, got degree=-1"):
            function(-1)
    with pytest.raises(ValueError, match="`degree` must be at most 511, got degree=512"):
        hermite_coefficients(relu, 512)
