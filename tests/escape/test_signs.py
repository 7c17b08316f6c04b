# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.nets import TwoLayer, partition


def test_signs_are_fair_and_independent():
    signs = np.asarray(
        jax.vmap(lambda k: ul.escape.random_signs(20, key=k))(jr.split(jr.key(0), 4000))
    )
    assert set(np.unique(signs)) == {-1.0, 1.0}
    # Means and correlations have standard deviation 4000^(-1/2); 5 of them over 20 + 190 values
    # fail with probability 1.2e-4.
    covariance = signs.T @ signs / 4000
    assert np.max(np.abs(signs.mean(axis=0))) < 5 / 4000**0.5
    assert np.max(np.abs(covariance - np.eye(20))) < 5 / 4000**0.5


def test_flipping_multiplies_rows_and_undoes_itself(getkey):
    W, signs = jr.normal(getkey(), (6, 3)), ul.escape.random_signs(6, key=getkey())
    flipped = ul.escape.flip(W, signs)
    np.testing.assert_array_equal(flipped, np.diag(signs) @ np.asarray(W))
    np.testing.assert_array_equal(ul.escape.flip(flipped, signs), W)
    np.testing.assert_array_equal(ul.escape.flip(np.asarray(W), np.asarray(signs)), flipped)


def test_of_a_two_layer_network_the_hidden_layer_alone_is_flipped(getkey):
    params = TwoLayer(3, 4).init(key=getkey())
    flipped = ul.escape.flip(params, -jnp.ones(4))
    np.testing.assert_array_equal(flipped.W, -params.W)
    np.testing.assert_array_equal(flipped.a, params.a)
    trainable, _ = partition(params, "hidden")
    np.testing.assert_array_equal(ul.escape.flip(trainable, -jnp.ones(4)).W, -params.W)


def test_weights_and_biases_of_any_tree_are_flipped_together(getkey):
    tree = {"W": jr.normal(getkey(), (5, 2)), "b": jr.normal(getkey(), (5,)), "out": jnp.ones(5)}
    signs = ul.escape.random_signs(5, key=getkey())
    flipped = ul.escape.flip(tree, signs, where=lambda t: (t["W"], t["b"]))
    np.testing.assert_array_equal(flipped["b"], signs * tree["b"])
    np.testing.assert_array_equal(flipped["W"], signs[:, None] * tree["W"])
    np.testing.assert_array_equal(flipped["out"], tree["out"])


def test_the_dtype_of_the_displacement_is_kept(getkey):
    with jax.enable_x64(True):
        W = jnp.ones((3, 2), jnp.float32)
        assert ul.escape.flip(W, ul.escape.random_signs(3, key=getkey())).dtype == jnp.float32


def test_bad_input_is_refused(no_shape_checker):
    with pytest.raises(
        ValueError, match=r"`signs` must have shape \(3,\), .*got signs.shape=\(2,\)"
    ):
        ul.escape.flip(jnp.ones((3, 2)), jnp.ones(2))
    with pytest.raises(ValueError, match=r"`where` must be given .* got delta of type dict"):
        ul.escape.flip({"W": jnp.ones((3, 2))}, jnp.ones(3))
    with pytest.raises(ValueError, match=r"`where` must pick arrays .* got row counts \[2, 3\]"):
        ul.escape.flip((jnp.ones((3, 2)), jnp.ones(2)), jnp.ones(3), where=lambda t: t)
    with pytest.raises(ValueError, match="`width` must be an integer >= 1, got width=0"):
        ul.escape.random_signs(0, key=jr.key(0))


def test_multiples_of_integers_are_not_rounded_to_zero(no_shape_checker):
    flipped = ul.escape.flip(np.array([[2, 2], [4, 4]]), jnp.array([0.5, -0.5]))
    np.testing.assert_array_equal(flipped, [[1.0, 1.0], [-2.0, -2.0]])
