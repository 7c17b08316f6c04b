# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.escape import norm_2p


@pytest.mark.parametrize("p", [1, 1.5, 2, 3.0, 4, 8])
def test_the_norm_is_its_formula(p, x64, getkey):
    W = jr.normal(getkey(), (7, 3))
    rows = np.sqrt((np.asarray(W) ** 2).sum(axis=1))
    np.testing.assert_allclose(norm_2p(W, p), (rows**p).sum() ** (1 / p), rtol=1e-13)


def test_two_is_frobenius_and_infinity_the_largest_row(x64, getkey):
    W = jr.normal(getkey(), (7, 3))
    np.testing.assert_allclose(norm_2p(W, 2), jnp.linalg.norm(W), rtol=1e-14)
    largest = jnp.max(jnp.linalg.norm(W, axis=1))
    np.testing.assert_allclose(norm_2p(W, float("inf")), largest, rtol=1e-14)
    np.testing.assert_allclose(norm_2p(W, 400), largest, rtol=0.01)


def test_power_means_compare_the_norms(x64, getkey):
    # BL-6: sum |w|^2 <= m^1/2 |W|_{2,4}^2 and sum |w|^3 <= m^1/4 |W|_{2,4}^3, equal at equal rows.
    W, m = jr.normal(getkey(), (9, 3)), 9
    equal = W / jnp.linalg.norm(W, axis=1, keepdims=True) * m**-0.25
    for p, power in ((2, 1 / 2), (3, 1 / 4)):
        assert norm_2p(W, p) ** p < m**power * norm_2p(W, 4) ** p
        np.testing.assert_allclose(norm_2p(equal, p) ** p, m**power, rtol=1e-13)
    np.testing.assert_allclose(norm_2p(equal, 4), 1, rtol=1e-14)


@pytest.mark.parametrize("p", [1, 1.5, 2, 4, float("inf")])
def test_the_gradient_is_right_and_finite_at_rows_of_zeros(p, x64, getkey):
    W = jr.normal(getkey(), (5, 3)).at[2].set(0)
    gradient = jax.grad(norm_2p)(W, p)
    V = jr.normal(getkey(), (5, 3)).at[2].set(0)
    step = 1e-6
    slope = (norm_2p(W + step * V, p) - norm_2p(W - step * V, p)) / (2 * step)
    np.testing.assert_allclose(jnp.sum(gradient * V), slope, rtol=1e-8)
    np.testing.assert_array_equal(gradient[2], 0)
    np.testing.assert_array_equal(jax.grad(norm_2p)(jnp.zeros((5, 3)), p), 0)


def test_sizes_at_the_edge_of_float32_neither_overflow_nor_vanish():
    W = jnp.array([[3.0, 4.0], [0.0, 0.0]])
    for scale in (1e25, 1e-25):
        np.testing.assert_allclose(norm_2p(scale * W, 4), 5 * scale, rtol=1e-6)


def test_below_one_it_is_not_a_norm():
    with pytest.raises(ValueError, match=r"`p` must be at least 1, got p=0.5"):
        ul.escape.norm_2p(jnp.eye(2), 0.5)


def test_a_movement_that_is_not_finite_has_no_norm_and_no_bound(no_shape_checker):
    assert np.isnan(norm_2p(jnp.array([[jnp.nan, 1.0], [2.0, 3.0]]), 4))
    net = ul.nets.TwoLayer(2, 4, "relu3", init="symmetric")
    params = net.init(key=jr.key(0))
    with pytest.raises(ValueError, match="`delta` must be finite"):
        ul.papers.bai_lee2020.term_bounds(net, params, jnp.full((4, 2), jnp.nan), jnp.eye(2))
    for W in (jnp.zeros((0, 3)), jnp.ones(3)):
        with pytest.raises(ValueError, match=r"`W` must have shape \(m, d\)"):
            norm_2p(W, 4)
