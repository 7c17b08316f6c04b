# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.escape.signs import all_signs
from unlazy.nets import TwoLayer
from unlazy.papers.nichani2022 import signed_high_part

D, M, N = 3, 8, 20


def problem():
    keys = jr.split(jr.key(0), 3)
    net = TwoLayer(D, M, ul.activation("sigmoid", shift=1.5), "sphere")
    x = ul.data.sphere(N, D, radius=math.sqrt(D), key=keys[1])
    geometry = ul.escape.directions(net, net.init(key=keys[0]), x, degree=1)
    return geometry, jr.normal(keys[2], (M, D))


def terms(geometry, W, x):
    """f_L and f_Q of movements by their formulas, in NumPy."""
    W0, a = np.asarray(geometry.params.W), np.asarray(geometry.params.a)
    s = 1 / (1 + np.exp(1.5 - x @ W0.T))
    first, Z = s * (1 - s), np.einsum("nd,...rd->...nr", x, W)
    linear = np.sum(a * first * Z, -1) / math.sqrt(M)
    return linear, np.sum(a * first * (1 - 2 * s) * Z**2, -1) / (2 * math.sqrt(M)), first * Z


def test_means_and_variance_over_all_signs_are_the_formulas(x64):
    geometry, W = problem()
    fresh = np.random.default_rng(1).normal(size=(6, D))
    signed = jax.jit(jax.vmap(lambda signs: signed_high_part(geometry, W, signs)))
    every = np.asarray(signed(jnp.asarray(all_signs(M))))
    linear, quadratic, _ = terms(geometry, every, fresh)
    low, high = (np.asarray(part(W)) for part in (geometry.low, geometry.high))
    f_low, q_low, _ = terms(geometry, low, fresh)
    _, q_high, products = terms(geometry, high, fresh)
    np.testing.assert_allclose(linear.mean(0), f_low, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(quadratic.mean(0), q_low + q_high, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(linear.var(0), np.sum(products**2, -1) / M, rtol=1e-10)
    # Signs of all rows would lose the low part, too.
    assert np.abs(f_low).max() > 0.1


def test_one_sign_for_all_neurons_mirrors_the_high_part_and_twice_is_the_movement(x64):
    geometry, W = problem()
    mirrored = signed_high_part(geometry, W, -jnp.ones(M))
    np.testing.assert_allclose(geometry.low(mirrored), geometry.low(W), atol=1e-11)
    np.testing.assert_allclose(geometry.high(mirrored), -geometry.high(W), atol=1e-11)
    np.testing.assert_allclose(signed_high_part(geometry, mirrored, -jnp.ones(M)), W, atol=1e-11)
    with pytest.raises(ValueError, match="`signs` must have shape"):
        signed_high_part(geometry, W, jnp.ones(3))
