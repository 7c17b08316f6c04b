# SPDX-License-Identifier: Apache-2.0
import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import escape

C = 378 * (14 / 5) ** 3  # 8297.856, Corollary 3


@pytest.fixture
def matrices(x64, getkey):
    return jr.normal(getkey(), (7, 3)), jr.normal(getkey(), (7, 3))


def test_the_regulariser_is_the_eighth_power_of_the_norm(matrices):
    W, _ = matrices
    np.testing.assert_allclose(escape.regularizer(W), escape.norm_2p(W, 4) ** 8, rtol=1e-13)


def test_every_closed_form_is_what_automatic_differentiation_gives(matrices):
    W, V = matrices
    gradient = jax.grad(escape.regularizer)
    hvp = jax.jvp(gradient, (W,), (V,))[1]
    np.testing.assert_allclose(escape.regularizer.gradient(W), gradient(W), rtol=1e-12)
    np.testing.assert_allclose(escape.regularizer.hvp(W, V), hvp, rtol=1e-11, atol=1e-9)
    np.testing.assert_allclose(escape.regularizer.hessian_form(W, V), jnp.sum(V * hvp), rtol=1e-12)


def test_gradient_and_hessian_match_finite_differences(matrices):
    # BL-T10: measured relative errors 2e-8 and 9e-9.
    W, V = matrices
    step = 1e-4
    plus, minus = escape.regularizer(W + step * V), escape.regularizer(W - step * V)
    slope = (plus - minus) / (2 * step)
    bend = (plus - 2 * escape.regularizer(W) + minus) / step**2
    np.testing.assert_allclose(jnp.sum(escape.regularizer.gradient(W) * V), slope, rtol=1e-6)
    np.testing.assert_allclose(escape.regularizer.hessian_form(W, V), bend, rtol=1e-6)


def test_euler_and_sign_invariance(matrices, getkey):
    W, _ = matrices
    inner = jnp.sum(escape.regularizer.gradient(W) * W)
    np.testing.assert_allclose(inner, 8 * escape.regularizer(W), rtol=1e-13)
    signs = escape.random_signs(7, key=getkey())
    flipped = escape.regularizer(escape.flip(W, signs))
    np.testing.assert_array_equal(flipped, escape.regularizer(W))


def test_the_curvature_is_the_hessian_form_averaged_over_all_signs(matrices):
    W, W_star = matrices
    signs = jnp.array(list(itertools.product((1.0, -1.0), repeat=7)))
    forms = jax.vmap(lambda s: escape.regularizer.hessian_form(W, s[:, None] * W_star))(signs)
    curvature = escape.regularizer.curvature(W, W_star)
    np.testing.assert_allclose(curvature, jnp.mean(forms), rtol=1e-13)


def test_corollary_3_holds_with_its_constant_and_no_smaller_one(x64, getkey):
    # BL-T16: Hreg(W, W*) <= 5 R(W) + C R(W*). Half of the draws have W* parallel to W.
    keys = jr.split(getkey(), 500)

    def ratio(key, parallel):
        key_W, key_V, key_s = jr.split(key, 3)
        W, V = jr.normal(key_W, (4, 3)), jr.normal(key_V, (4, 3))
        W_star = jnp.where(parallel, W, V) / 10 ** jr.uniform(key_s, (), minval=-1.0, maxval=2.0)
        gap = escape.regularizer.curvature(W, W_star) - 5 * escape.regularizer(W)
        return gap / escape.regularizer(W_star)

    for parallel in (True, False):
        ratios = jax.jit(jax.vmap(lambda k, p=parallel: ratio(k, p)))(keys)
        assert bool(jnp.all(jnp.isfinite(ratios)))
        assert float(jnp.max(ratios)) <= C
    # One neuron, W = t W*: 56 t^6 - 5 t^8, largest at t^2 = 8.4.
    one = jnp.ones((1, 1))
    gap = escape.regularizer.curvature(8.4**0.5 * one, one) - 5 * escape.regularizer(8.4**0.5 * one)
    np.testing.assert_allclose(gap, C, rtol=1e-12)


def test_derivatives_at_zero_are_zero():
    zero = jnp.zeros((3, 2))
    np.testing.assert_array_equal(jax.grad(escape.regularizer)(zero), 0)
    np.testing.assert_array_equal(escape.regularizer.hvp(zero, jnp.ones((3, 2))), 0)
