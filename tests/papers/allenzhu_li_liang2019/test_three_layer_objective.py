# SPDX-License-Identifier: Apache-2.0
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.escape import norm_2p
from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019 import spread_ratio, three_layer_regularizer


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


def test_penalty_is_that_of_the_norms_at_scaled_weights(getkey):
    # LG-13: R at (sqrt(lam) W', sqrt(lam) V').
    delta = ThreeLayer(3, (6, 4)).init(key=getkey())
    root = 0.7
    for alpha in (2, 1.0, 3.5):
        W, V = root * np.asarray(delta.W), root * np.asarray(delta.V)
        by_hand = 0.2 * np.sum(V**2) + 0.3 * np.sum(np.linalg.norm(W, axis=1) ** (2 + alpha))
        value = three_layer_regularizer(delta, lam_w=0.3, lam_v=0.2, alpha=alpha, scale=root**2)
        assert float(value) == pytest.approx(by_hand, rel=1e-5)


def test_gradient_of_the_penalty_is_the_stated_one(getkey):
    # LG-13: 4 lam_w ||w_i||^2 w_i and 2 lam_v V, also where a row is zero.
    delta = ThreeLayer(3, (6, 4)).init(key=getkey())
    delta = eqx.tree_at(lambda p: p.W, delta, delta.W.at[2].set(0.0))
    for alpha in (2, 1.0):
        slope = jax.grad(
            lambda p, alpha=alpha: three_layer_regularizer(p, lam_w=0.3, lam_v=0.2, alpha=alpha)
        )(delta)
        norms = jnp.linalg.norm(delta.W, axis=1)[:, None]
        expected = (2 + alpha) * 0.3 * norms**alpha * delta.W
        np.testing.assert_allclose(slope.W, expected, rtol=1e-4, atol=1e-7)
        np.testing.assert_allclose(slope.V, 0.4 * delta.V, rtol=1e-5)
        assert not np.any(slope.a)


def test_bad_strengths_of_the_penalty_are_refused(no_shape_checker):
    delta = ThreeLayer(3, 4).init(key=jr.key(0))
    with pytest.raises(ValueError, match="`alpha` must be a positive number"):
        three_layer_regularizer(delta, lam_w=1.0, lam_v=1.0, alpha=0)
    for name, bad in (("lam_w", -1.0), ("lam_v", math.nan)):
        with pytest.raises(ValueError, match=f"`{name}` must be a number >= 0, got {name}={bad}"):
            three_layer_regularizer(delta, **({"lam_w": 1.0, "lam_v": 1.0} | {name: bad}))
