# SPDX-License-Identifier: Apache-2.0
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data
from unlazy.kernels import empirical_ntk
from unlazy.nets import ThreeLayer, partition


def double(params):
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64), params)


def test_output_is_the_double_sum_over_neurons(getkey):
    # LG-2, neuron by neuron.
    net = ThreeLayer(3, (5, 4), outputs=2, multiplier=0.5)
    params, x = net.init(key=getkey()), jr.normal(getkey(), (3, 3))
    W, b1, V, b2, a = (np.asarray(leaf) for leaf in jax.tree.leaves(params))

    def output(row, r):
        total = 0.0
        for i in range(4):
            n = sum(V[i, j] * max(W[j] @ row + b1[j], 0) for j in range(5))
            total += a[r, i] * max(n + b2[i], 0)
        return 0.5 * total

    one_by_one = [[output(row, r) for r in range(2)] for row in np.asarray(x)]
    np.testing.assert_allclose(net(params, x), one_by_one, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("init", "spreads"),
    [
        ("learner", (1 / 30, 1 / 20, 1.0)),
        ("experiment", (1 / 30, 1 / 20, 1 / 20)),
        ("fan-in", (1 / 5, 1 / 30, 1 / 20)),
    ],
)
def test_initial_variances_are_the_stated_ones(init, spreads, getkey):
    # The smallest leaf has 400 entries: relative standard error of a variance 0.071; 6 of them
    # fail with probability below 1e-7 (chi-squared).
    params = ThreeLayer(25, (900, 400), init=init).init(key=getkey())
    first, second, outer = spreads
    expected = {"W": first, "b1": first, "V": second, "b2": second, "a": outer}
    for name, std in expected.items():
        part = np.asarray(getattr(params, name), np.float64)
        tolerance = 6 * np.sqrt(2 / part.size)
        assert np.mean(part**2) == pytest.approx(std**2, rel=tolerance), name


def test_multiplier_scales_weights_by_its_root_and_the_second_bias_by_itself(getkey):
    # LG-2: scaling W and V alone is not the same, because of the biases.
    net, lam = ThreeLayer(4, 16), 0.49
    params, x = net.init(key=getkey()), jr.normal(getkey(), (5, 4))
    scaled = ThreeLayer(4, 16, multiplier=lam)(params, x)
    parts = (params.W * 0.7, params.b1 * 0.7, params.V * 0.7, params.b2 * lam)
    same = eqx.tree_at(lambda p: (p.W, p.b1, p.V, p.b2), params, parts)
    np.testing.assert_allclose(scaled, net(same, x), rtol=1e-4, atol=1e-5)
    other = eqx.tree_at(lambda p: (p.W, p.V), params, (params.W * 0.7, params.V * 0.7))
    assert np.max(np.abs(scaled - net(other, x))) > 0.01


def test_tangent_and_conjugate_kernels_have_the_closed_forms(getkey, x64):
    # LG-10 and LG-12, with no Jacobian formed, against the library's empirical kernel.
    net = ThreeLayer(4, (9, 12))
    params, x = double(net.init(key=getkey())), data.sphere(5, 4, key=getkey())
    hidden = net.hidden(params, x)
    D_w, D_v = (np.asarray(z >= 0, float) for z in hidden)
    S, H = (np.maximum(np.asarray(z), 0) for z in hidden)
    a, V = np.asarray(params.a), np.asarray(params.V)
    A = ((D_v * a) @ V) * D_w
    by_hand = (S @ S.T) * ((D_v * a**2) @ D_v.T) + np.asarray(x @ x.T) * (A @ A.T)
    K = empirical_ntk(net, params, x, trained=params.is_weight())[..., 0, 0]
    np.testing.assert_allclose(K, by_hand, rtol=1e-12)
    last = empirical_ntk(net, params, x, trained="last")[..., 0, 0]
    np.testing.assert_allclose(last, H @ H.T, rtol=1e-12)


def test_partition_knows_weights_hidden_and_last(getkey):
    params = ThreeLayer(3, 4).init(key=getkey())
    parts = {"weights": 2, "hidden": 4, "last": 1, "all": 5}
    for trained, leaves in parts.items():
        trainable, _ = partition(params, trained)  # pyright: ignore[reportArgumentType]  # a loop over the names
        assert len(jax.tree.leaves(trainable)) == leaves
    weights, _ = partition(params, "weights")
    assert weights.W is params.W
    assert weights.V is params.V


def test_networks_are_values_and_one_width_is_both():
    assert ThreeLayer(3, 4) == ThreeLayer(3, (4, 4))
    assert hash(ThreeLayer(3, 4)) == hash(ThreeLayer(3, (4, 4)))
    assert ThreeLayer(3, 4) != ThreeLayer(3, 4, multiplier=0.5)
    assert jax.tree.leaves(ThreeLayer(3, 4)) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": 0, "widths": 4}, "`inputs` must be an integer >= 1"),
        ({"inputs": 3, "widths": (4, 0)}, "`widths` must be an integer >= 1"),
        ({"inputs": 3, "widths": 4, "outputs": 0}, "`outputs` must be an integer >= 1"),
        ({"inputs": 3, "widths": 4, "init": "experimental"}, "Did you mean 'experiment'"),
        ({"inputs": 3, "widths": 4, "multiplier": 0.0}, "`multiplier` must be a positive number"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ThreeLayer(**arguments)


def test_parameters_and_widths_that_do_not_fit_are_refused(getkey, no_shape_checker):
    with pytest.raises(ValueError, match="`widths` must be one number or two"):
        ThreeLayer(3, (1, 2, 3))  # pyright: ignore[reportArgumentType]  # on purpose
    net = ThreeLayer(3, 4)
    with pytest.raises(ValueError, match=r"with V of shape \(4, 4\), got params.V.shape=\(5, 4\)"):
        net(ThreeLayer(3, (4, 5)).init(key=getkey()), jnp.ones((2, 3)))


def test_widths_may_be_a_list_of_two():
    assert ThreeLayer(4, [8, 6]) == ThreeLayer(4, (8, 6))
    with pytest.raises(ValueError, match="`widths` must be one number or two"):
        ThreeLayer(4, [8, 6, 2])


def test_parameters_without_a_last_layer_are_not_split(no_shape_checker):
    params: Any = {"W": 1.0}
    for name in ("hidden", "weights"):
        with pytest.raises(ValueError, match=r"`trained` must be None or a filter.*for the learn"):
            partition(params, name)
