# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.special import gaussian_rule, hermite_series


@pytest.mark.parametrize("power", range(0, 21, 2))
def test_rule_gives_the_moments_of_a_gaussian(power):
    nodes, weights = gaussian_rule()
    moment = math.prod(range(1, power, 2))
    assert weights @ nodes**power == pytest.approx(moment, rel=1e-13)
    assert weights @ np.abs(nodes) == pytest.approx(math.sqrt(2 / math.pi), rel=1e-14)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_rule_resolves_a_step_of_any_steepness_at_zero(scale):
    # E erf(s g)^2 = (2/pi) arcsin(2 s^2 / (1 + 2 s^2)).
    nodes, weights = gaussian_rule()
    values = np.asarray([math.erf(scale * g) for g in nodes])
    expected = 2 / math.pi * math.atan2(2 * scale**2, math.sqrt(1 + 4 * scale**2))
    assert weights @ values**2 == pytest.approx(expected, rel=1e-13)


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
