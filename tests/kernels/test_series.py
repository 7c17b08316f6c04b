# SPDX-License-Identifier: Apache-2.0
"""How many terms a series has and what is compiled for it; its values are tested in test_mlp."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy.kernels import ntk
from unlazy.kernels.series import SeriesDual, enough_terms, shares_left, shortened


@pytest.mark.parametrize("degree", [14, 126])
def test_a_shortened_series_is_the_series_of_as_many_terms(degree, x64):
    # The tail of one is a square minus a sum, that of the other the sum of the rest.
    dual = SeriesDual(ul.activation("softplus", shift=0.3))
    s = jnp.array([0.2, 1.0, 4.0, 30.0])
    long, short = dual.longest().rows(s), replace(dual, degree=degree).rows(s)
    for one, features in zip(short.features, long.features, strict=True):
        terms, ours = np.asarray(shortened(features, degree)), np.asarray(one)
        assert terms.shape == ours.shape == (degree + 2, 4)
        size = np.sqrt(np.sum(terms**2, axis=0))
        np.testing.assert_allclose(terms[:degree] / size, ours[:degree] / size, atol=1e-14)
        np.testing.assert_allclose((terms / size) ** 2, (ours / size) ** 2, atol=32 * 2.3e-16)
        np.testing.assert_allclose(size**2, np.sum(features**2, axis=0), rtol=1e-14)


def test_as_many_terms_are_taken_as_leave_nothing(x64):
    # e^{s g} has the coefficients e^{s^2/2} s^k / sqrt(k!), a polynomial has finitely many.
    cases = {0.1: 14, 1.5: 30, 2.5: 62}
    for s, degree in cases.items():
        shares = np.asarray(shares_left(SeriesDual(jnp.exp).longest().rows(jnp.array([s]))))
        assert enough_terms(shares) == degree
        assert (np.diff(shares) <= 0).all()
        below = np.cumsum([1.0, *np.cumprod(s**2 / np.arange(1, 14))])[-1] * np.exp(-(s**2))
        np.testing.assert_allclose(shares[0], 1 - below if shares[0] else 0, atol=1e-13)


def test_one_program_serves_all_layers_of_a_series(compilations):
    def activation(z):
        return jnp.tanh(z) + z / 10

    x = np.random.default_rng(0).standard_normal((6, 4))
    ntk(x, depth=2, activation=activation)
    assert compilations.count("_series_layer") == 1
    compilations.clear()
    ntk(x, depth=9, activation=activation)
    assert "_series_layer" not in compilations
    assert len(compilations) < 16


def test_many_layers_of_a_series_are_those_of_a_traced_program():
    # There all layers have 126 terms and are one loop. The depth is more than one piece takes.
    x = np.random.default_rng(1).standard_normal((5, 3)) / 4

    def kernel(x):
        return ntk(x, depth=70, activation="tanh", weight_variance=1.1, bias_variance=0.01)

    with jax.enable_x64(True):
        np.testing.assert_allclose(kernel(x), jax.jit(kernel)(x), rtol=1e-12)
