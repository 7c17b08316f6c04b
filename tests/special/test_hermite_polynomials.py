# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermeval

from unlazy.papers.bai_lee2020 import relu_series
from unlazy.special import gaussian_rule, hermite, hermite_coefficients, hermite_series


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


def test_series_of_exp_is_the_generating_function(x64):
    # e^{s g} = e^{s^2/2} sum_k s^k / sqrt(k!) h_k(g).
    s = jnp.array([0.3, 1.5])
    series = hermite_series(jnp.exp, s, 30)
    k = np.arange(30)[:, None]
    factorial = np.array([math.sqrt(math.factorial(int(j))) for j in k[:, 0]])[:, None]
    expected = np.exp(np.asarray(s) ** 2 / 2) * np.asarray(s) ** k / factorial
    np.testing.assert_allclose(series.coefficients, expected, atol=1e-14)
    np.testing.assert_allclose(series.square, np.exp(2 * s**2), rtol=1e-14)
    np.testing.assert_allclose(series.even_square, (np.exp(2 * s**2) + 1) / 2, rtol=1e-14)


def test_high_coefficients_of_the_step_follow_their_closed_form(x64):
    # E[1(g >= 0) h_k(g)] = h_{k-1}(0) / sqrt(2 pi k), which is 0 for even k: RN-54's integral.
    def step(z):
        return jnp.where(z >= 0, jnp.ones_like(z), 0)

    coefficients = np.asarray(jax.jit(hermite_series, static_argnums=(0, 2))(
        step, jnp.array([1.0]), 510
    ).coefficients)[:, 0]  # fmt: skip
    at_zero = np.zeros(510)
    at_zero[0] = 1
    for k in range(2, 510, 2):
        at_zero[k] = -math.sqrt((k - 1) / k) * at_zero[k - 2]
    k = np.arange(1, 510)
    np.testing.assert_allclose(coefficients[1:], at_zero[:-1] / np.sqrt(2 * np.pi * k), atol=1e-14)


@pytest.mark.parametrize("kink", [0.7, -1.3])
def test_a_kink_that_is_named_is_resolved_at_every_scale(kink, x64):
    # E[1(s g >= b) h_k(g)] = phi(t) h_{k-1}(t) / sqrt(k) with t = b/s, and P(g >= t) for k = 0.
    def step(z):
        return jnp.where(z >= kink, jnp.ones_like(z), 0)

    s = np.array([0.02, 0.4, 1.0, 30.0])
    series = jax.jit(hermite_series, static_argnums=(0, 2), static_argnames="kink")(
        step, jnp.asarray(s), 200, kink=kink
    )
    t = kink / s
    tail = np.array([math.erfc(v / math.sqrt(2)) / 2 for v in t])
    h, expected = [np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)], [tail]
    h.append(t * h[0])
    for k in range(1, 200):
        expected.append(h[k - 1] / math.sqrt(k))
        h.append((t * h[k] - math.sqrt(k) * h[k - 1]) / math.sqrt(k + 1))
    np.testing.assert_allclose(series.coefficients, np.array(expected), atol=2e-14)
    np.testing.assert_allclose(series.square, tail, atol=1e-15)
    # f(z) f(-z) is 1 where |z| <= -b.
    both = np.maximum(1 - 2 * np.minimum(tail, 1 - tail), 0) if kink < 0 else 0
    np.testing.assert_allclose(series.even_square, (tail + both) / 2, atol=1e-14)
