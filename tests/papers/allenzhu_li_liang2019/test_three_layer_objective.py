# SPDX-License-Identifier: Apache-2.0
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019 import three_layer_regularizer


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
