# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data
from unlazy.kernels import empirical_ntk
from unlazy.nets import BiasedTwoLayer, BiasedTwoLayerParams, TwoLayer, combine, partition


def test_output_is_the_sum_over_neurons(getkey):
    # LG-1, one neuron, one output at a time.
    net = BiasedTwoLayer(5, 7, outputs=3)
    params, x = net.init(key=getkey()), jr.normal(getkey(), (4, 5))
    W, b, a = (np.asarray(part) for part in (params.W, params.b, params.a))
    one_by_one = [
        [sum(a[r, i] * max(W[i] @ row + b[i], 0) for i in range(7)) for r in range(3)]
        for row in np.asarray(x)
    ]
    np.testing.assert_allclose(net(params, x), one_by_one, rtol=1e-4, atol=1e-6)


def test_one_output_is_the_first_column(getkey):
    key = getkey()
    many, one = BiasedTwoLayer(3, 8, outputs=1), BiasedTwoLayer(3, 8)
    x = jr.normal(getkey(), (4, 3))
    params = many.init(key=key)
    scalar = BiasedTwoLayerParams(W=params.W, b=params.b, a=params.a[0])
    assert one(scalar, x).shape == (4,)
    np.testing.assert_allclose(many(params, x)[:, 0], one(scalar, x), rtol=1e-6)


@pytest.mark.parametrize(
    ("init", "hidden", "outer"),
    [("learner", 0.01, 0.1), ("experiment", 0.01, 0.1 / 100), ("fan-in", 0.2, 0.1 / 100)],
)
def test_initial_variances_are_the_stated_ones(init, hidden, outer, getkey):
    # 10^4 entries or more: the relative standard error of a variance is 0.014; 6 of them.
    params = BiasedTwoLayer(25, 10_000, init=init, init_scale=0.1).init(key=getkey())
    for part, std in ((params.W, hidden), (params.b, hidden), (params.a, outer)):
        assert np.mean(np.asarray(part) ** 2) == pytest.approx(std**2, rel=6 * 0.0142)


def test_tangent_and_conjugate_kernels_have_the_closed_forms(getkey, x64):
    # LG-10 and LG-11: masks and products, against automatic differentiation.
    net = BiasedTwoLayer(4, 30)
    params = jax.tree.map(lambda leaf: leaf.astype(float), net.init(key=getkey()))
    x = data.sphere(6, 4, key=getkey())
    Z = np.asarray(x @ params.W.T + params.b[None, :])
    S, D, a = np.maximum(Z, 0), (Z >= 0).astype(float), np.asarray(params.a)
    weights = empirical_ntk(net, params, x, trained=params.is_weight())[..., 0, 0]
    np.testing.assert_allclose(weights, np.asarray(x @ x.T) * ((D * a**2) @ D.T), rtol=1e-12)
    last = empirical_ntk(net, params, x, trained="last")[..., 0, 0]
    np.testing.assert_allclose(last, S @ S.T, rtol=1e-12)


def test_partition_knows_weights_hidden_and_last(getkey):
    params = BiasedTwoLayer(3, 4).init(key=getkey())
    names = {"weights": {"W"}, "hidden": {"W", "b"}, "last": {"a"}, "all": {"W", "b", "a"}}
    for trained, chosen in names.items():
        trainable, frozen = partition(params, trained)  # pyright: ignore[reportArgumentType]  # a loop over the names
        assert {name for name in "Wba" if getattr(trainable, name) is not None} == chosen
        np.testing.assert_array_equal(combine(trainable, frozen).b, params.b)
    plain = TwoLayer(3, 4).init(key=getkey())
    assert partition(plain, "weights")[0].W is plain.W


def test_the_plain_network_sends_learners_here():
    with pytest.raises(ValueError, match=r"Use nets\.BiasedTwoLayer"):
        TwoLayer(3, 4, init="learner")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": 0, "width": 4}, "`inputs` must be an integer >= 1"),
        ({"inputs": 3, "width": 0}, "`width` must be an integer >= 1"),
        ({"inputs": 3, "width": 4, "outputs": 0}, "`outputs` must be an integer >= 1"),
        ({"inputs": 3, "width": 4, "init": "lerner"}, "Did you mean 'learner'"),
        ({"inputs": 3, "width": 4, "init_scale": -1.0}, "`init_scale` must be a positive number"),
        ({"inputs": 3, "width": 4, "activation": "rellu"}, "Did you mean 'relu'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        BiasedTwoLayer(**arguments)


def test_inputs_and_parameters_of_other_networks_are_refused(getkey, no_shape_checker):
    net = BiasedTwoLayer(3, 4)
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, 3\)"):
        net(net.init(key=getkey()), jnp.ones((2, 4)))
    other = BiasedTwoLayer(3, 4, outputs=2).init(key=getkey())
    with pytest.raises(ValueError, match=r"with a of shape \(4,\), got params.a.shape=\(2, 4\)"):
        net(other, jnp.ones((2, 3)))
