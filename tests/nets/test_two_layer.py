# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data
from unlazy.core.trained import Trained
from unlazy.kernels import relu_gram
from unlazy.nets import TwoLayer, combine, partition


def test_output_is_the_sum_over_neurons(getkey):
    net = TwoLayer(5, 7, activation="tanh")
    params = net.init(key=getkey())
    x = jr.normal(getkey(), (4, 5))
    one_by_one = [
        sum(params.a[r] * np.tanh(params.W[r] @ xi) for r in range(7)) / np.sqrt(7) for xi in x
    ]
    np.testing.assert_allclose(net(params, x), one_by_one, rtol=1e-5)


def test_gaussian_init_has_the_stated_moments(getkey):
    # AR-2, AR-45: E u^2 = kappa^2/2 on unit rows. u is a mean of 400 terms, close to Gaussian:
    # the mean of u^2 over 4000 draws has relative standard error sqrt(2/4000) = 0.022; 6 of them
    # fail with probability 2e-9.
    net = TwoLayer(10, 400, init_scale=0.3)
    x = data.sphere(1, 10, key=getkey())
    draw = jax.jit(jax.vmap(lambda key: net(net.init(key=key), x)[0]))
    u = np.asarray(draw(jr.split(getkey(), 4000)))
    assert np.mean(u**2) == pytest.approx(0.3**2 / 2, rel=6 * 0.0224)
    params = net.init(key=getkey())
    assert set(np.unique(params.a)) == {-1.0, 1.0}
    assert params.W.shape == (400, 10)


@pytest.mark.parametrize("init", ["antisymmetric", "symmetric", "sphere"])
def test_paired_inits_give_zero_output_up_to_rounding(init, getkey):
    net = TwoLayer(20, 1000, init=init, init_scale=5.0)
    params = net.init(key=getkey())
    if init != "antisymmetric":  # BL-3, NB-1: which half has which sign is fixed
        np.testing.assert_array_equal(params.a[:500], 1.0)
    np.testing.assert_array_equal(params.W[:500], params.W[500:])
    np.testing.assert_array_equal(params.a[:500], -params.a[500:])
    out = net(params, data.sphere(30, 20, key=getkey()))
    assert np.abs(out).max() < 1e-4  # 1000 terms of size 4 / sqrt(1000) in float32


def test_sphere_init_draws_rows_uniformly_of_norm_init_scale(getkey):
    # NB section 2. E u u^T = I / d; the mean of 4000 products of two coordinates has a standard
    # error of at most sqrt(2 / (d (d + 2) 4000)) = 0.0038: 6 of them, 15 entries, fail with 3e-8.
    params = TwoLayer(5, 8000, init="sphere").init(key=getkey())
    np.testing.assert_allclose(np.linalg.norm(params.W, axis=1), 1.0, rtol=1e-6)
    half = np.asarray(params.W[:4000], np.float64)
    np.testing.assert_allclose(half.T @ half / 4000, np.eye(5) / 5, atol=6 * 0.0038)
    np.testing.assert_allclose(half.mean(axis=0), 0, atol=6 / np.sqrt(5 * 4000))
    params = TwoLayer(5, 8, init="sphere", init_scale=2.5).init(key=getkey())
    np.testing.assert_allclose(np.linalg.norm(params.W, axis=1), 2.5, rtol=1e-6)


def test_tangent_kernel_of_the_hidden_layer_tends_to_the_limit(getkey):
    # AR-5, AR-20, AR-44: ||H(0) - H||_F^2 has mean (1/m) sum K^2 p (1 - p). Over 30 draws the mean
    # of the square stays within a factor 2 of it (measured spread of one draw: 60%, so 7 sigma).
    m, x = 1000, data.sphere(12, 6, key=getkey())
    net = TwoLayer(6, m)

    def gram(key):
        params = net.init(key=key)
        jac = jax.jit(jax.jacrev(lambda W: net(type(params)(W=W, a=params.a), x)))(params.W)
        flat = jac.reshape(12, -1)
        return flat @ flat.T

    K, H = np.asarray(x @ x.T), np.asarray(relu_gram(x))
    p = np.where(K == 0, 0.25, H / K)
    exact = np.sum(K**2 * p * (1 - p)) / m
    grams = np.asarray(jax.lax.map(gram, jr.split(getkey(), 30)))
    measured = np.mean(np.sum((grams - H) ** 2, axis=(1, 2)))
    assert 0.5 * exact < measured < 2 * exact


def test_partition_splits_and_combine_restores(getkey):
    net = TwoLayer(3, 4)
    params = net.init(key=getkey())
    cases: list[tuple[Trained, int]] = [("hidden", 1), ("last", 1), ("all", 2)]
    for trained, leaves in cases:
        trainable, frozen = partition(params, trained)
        assert len(jax.tree.leaves(trainable)) == leaves
        assert len(jax.tree.leaves(frozen)) == 2 - leaves
        whole = combine(trainable, frozen)
        np.testing.assert_array_equal(whole.W, params.W)
        np.testing.assert_array_equal(whole.a, params.a)
    assert partition(params, "hidden")[0].W is params.W
    assert partition(params, "last")[0].a is params.a


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": 0, "width": 4}, "`inputs` must be an integer >= 1"),
        ({"inputs": 3, "width": 0}, "`width` must be an integer >= 1"),
        ({"inputs": 3, "width": 5, "init": "antisymmetric"}, "`width` must be even"),
        ({"inputs": 3, "width": 5, "init": "symmetric"}, "`width` must be even"),
        ({"inputs": 3, "width": 5, "init": "sphere"}, "`width` must be even"),
        ({"inputs": 3, "width": 4, "init": "gausian"}, "Did you mean 'gaussian'"),
        ({"inputs": 3, "width": 4, "init_scale": 0.0}, "`init_scale` must be a positive number"),
        ({"inputs": 3, "width": 4, "activation": "rellu"}, "Did you mean 'relu'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        TwoLayer(**arguments)


def test_unknown_parts_are_named(getkey, no_shape_checker):
    with pytest.raises(ValueError, match="Did you mean 'hidden'"):
        partition(TwoLayer(3, 4).init(key=getkey()), "hiden")  # pyright: ignore[reportArgumentType]  # on purpose


def test_networks_are_values():
    assert TwoLayer(3, 4) == TwoLayer(3, 4)
    assert hash(TwoLayer(3, 4)) == hash(TwoLayer(3, 4))
    assert TwoLayer(3, 4) != TwoLayer(3, 4, init_scale=0.5)
    assert jax.tree.leaves(TwoLayer(3, 4)) == []
    assert jnp.shape(TwoLayer(3, 4)(TwoLayer(3, 4).init(key=jr.key(0)), jnp.ones((2, 3)))) == (2,)


def test_inputs_and_parameters_of_other_shapes_are_refused(getkey, no_shape_checker):
    net = TwoLayer(3, 4)
    params = net.init(key=getkey())
    for x in (jnp.ones(3), jnp.ones((2, 4)), jnp.ones((2, 1, 3))):
        with pytest.raises(ValueError, match=r"`x` must have shape \(n, 3\)"):
            net(params, x)
    with pytest.raises(ValueError, match="`params` must be of this network"):
        net(TwoLayer(3, 8).init(key=getkey()), jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="`key` must be one random key"):
        net.init(key=0)  # pyright: ignore[reportArgumentType]  # on purpose
