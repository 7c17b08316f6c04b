# SPDX-License-Identifier: Apache-2.0
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import BiasedTwoLayer, ResNet3, ResNet3Params, ThreeLayer, combine, partition
from unlazy.taylor import linearize


def float64(params):
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64), params)


def test_output_is_the_sum_over_neurons(getkey):
    # RN-4 with the biases as last columns, one neuron at a time.
    net = ResNet3(4, 6, 2, init="experiment")
    params, x = net.init(key=getkey()), np.asarray(jr.normal(getkey(), (3, 4)), np.float64)
    p = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), params)
    W, V = np.hstack([p.W, p.b1[:, None]]), np.hstack([p.V, p.b2[:, None]])
    for row, found in zip(x, np.asarray(net(params, jnp.asarray(x, jnp.float32))), strict=True):
        out1 = sum(p.A[:, j] * max(W[j] @ np.append(row, 1), 0) for j in range(6))
        out = out1 + sum(p.A[:, j] * max(V[j] @ np.append(out1, 1), 0) for j in range(6))
        np.testing.assert_allclose(found, out, rtol=1e-4, atol=1e-6)


def test_bottleneck_is_the_general_form_with_u_equal_va(getkey, x64):
    # RN-40, at its size; measured there: 1.1e-16.
    net, general = ResNet3(5, 300, 3), ResNet3(5, 300, 3, form="general")
    params, x = float64(net.init(key=getkey())), jr.normal(getkey(), (7, 5))
    difference = general(net.as_general(params), x) - net(params, x)
    assert np.abs(difference).max() < 1e-13


@pytest.mark.parametrize(
    ("form", "init", "spreads"),
    [
        ("bottleneck", "theory", (0.2, 3e-2, 1e-2)),
        ("bottleneck", "experiment", (1e-2, 1e-2, 1e-2)),
        ("bottleneck", "fan-in", (0.5, 0.2, 1e-2)),
    ],
)
def test_initial_variances_are_the_stated_ones(form, init, spreads, getkey):
    # RN-5 and RN-6. 10^4 entries or more: the relative standard error of a variance is 0.014 at
    # most; 6 of them.
    net = ResNet3(4, 10_000, 25, form=form, init=init, sigma_w=0.2, sigma_v=3.0)
    params = net.init(key=getkey())
    parts = (params.W, params.b1), (params.V, params.b2), (params.A,)
    for arrays, std in zip(parts, spreads, strict=True):
        for array in arrays:
            assert np.mean(np.asarray(array) ** 2) == pytest.approx(std**2, rel=6 * 0.0142)


def test_default_start_is_that_of_the_theory_and_general_layers_see_all_neurons():
    net = ResNet3(4, 16, 2)
    assert net.spreads == pytest.approx((0.5, 0.25, 0.25))
    general = ResNet3(4, 16, 2, form="general", init="fan-in")
    assert general.spreads == pytest.approx((0.5, 0.25, 0.25))
    assert general.init(key=jr.key(0)).V.shape == (16, 16)


def test_all_learners_of_the_experiments_start_alike(getkey):
    # RN-6 and RN-7: every entry N(0, 1/m), in all three architectures, k outputs.
    m = 400
    nets = [
        BiasedTwoLayer(20, m, outputs=20, init="experiment"),
        ThreeLayer(20, m, outputs=20, init="experiment"),
        ResNet3(20, m, 20, init="experiment"),
    ]
    for net in nets:
        params = net.init(key=getkey())
        for leaf in jax.tree.leaves(params):
            # 400 entries at least: relative standard error of a variance 0.071; 5 of them.
            assert np.mean(np.asarray(leaf) ** 2) == pytest.approx(1 / m, rel=0.36)
        assert net(params, jnp.ones((2, 20))).shape == (2, 20)


def test_partition_knows_what_is_hidden(getkey):
    params = ResNet3(3, 4, 2).init(key=getkey())
    names = ("W", "b1", "V", "b2", "A")
    parts = {"hidden": {"W", "b1", "V", "b2"}, "weights": {"W", "V"}, "all": set(names)}
    for trained, chosen in parts.items():
        trainable, frozen = partition(params, trained)  # pyright: ignore[reportArgumentType]  # a loop over the names
        assert {name for name in names if getattr(trainable, name) is not None} == chosen
        np.testing.assert_array_equal(combine(trainable, frozen).b2, params.b2)


def test_the_last_layer_is_no_part_of_shared_parameters(getkey):
    net = ResNet3(3, 4, 2, form="general")
    assert partition(net.init(key=getkey()), "last")[0].W is None
    with pytest.raises(ValueError, match=r"Train the linear model net.last_layer\(params\)"):
        partition(ResNet3(3, 4, 2).init(key=getkey()), "last")


def test_the_last_layer_is_linear_and_starts_at_the_network(getkey, x64):
    # RN-8: features h1 + sigma(V0 (A0 h1, 1)), the inner A at its start.
    net = ResNet3(3, 20, 2)
    params, x = float64(net.init(key=getkey())), jr.normal(getkey(), (4, 3))
    f, B = net.last_layer(params), jr.normal(getkey(), (2, 20))
    np.testing.assert_allclose(f(params.A, x), net(params, x), rtol=1e-12)
    np.testing.assert_allclose(f(params.A - 2 * B, x), f(params.A, x) - 2 * f(B, x), atol=1e-12)
    p = jax.tree.map(np.asarray, params)
    h1 = np.maximum(np.asarray(x) @ p.W.T + p.b1, 0)
    h2 = np.maximum(h1 @ p.A.T @ p.V.T + p.b2, 0)
    np.testing.assert_allclose(f(B, x), (h1 + h2) @ np.asarray(B).T, rtol=1e-12)


def test_the_shared_weights_get_the_gradient_of_both_uses(getkey, x64):
    # RN-8, "all": by the sum rule, from a network with two copies of A.
    net = ResNet3(3, 20, 2)
    params, x = float64(net.init(key=getkey())), jr.normal(getkey(), (4, 3))

    def apart(inner, outer):
        h1 = jax.nn.relu(x @ params.W.T + params.b1[None])
        h2 = jax.nn.relu(h1 @ inner.T @ params.V.T + params.b2[None])
        return jnp.sum(jnp.sin((h1 + h2) @ outer.T))

    both = jax.grad(apart, argnums=(0, 1))(params.A, params.A)
    shared = jax.grad(lambda p: jnp.sum(jnp.sin(net(p, x))))(params).A
    np.testing.assert_allclose(shared, both[0] + both[1], rtol=1e-10, atol=1e-13)


def test_the_linearised_network_follows_every_parameter(getkey, x64):
    # RN-8, "NTK": taylor.linearize, the shared A included.
    net = ResNet3(3, 20, 2)
    params, x = float64(net.init(key=getkey())), jr.normal(getkey(), (4, 3))
    step = jax.tree.map(lambda leaf: jr.normal(getkey(), leaf.shape), params)
    out, slope = jax.jvp(lambda p: net(p, x), (params,), (step,))
    moved = jax.tree.map(jnp.add, params, step)
    np.testing.assert_allclose(linearize(net, params)(moved, x), out + slope, rtol=1e-10)


def test_first_outputs_are_those_without_the_residual_branch(getkey):
    net = ResNet3(3, 20, 2)
    params, x = net.init(key=getkey()), jr.normal(getkey(), (4, 3))
    two_layer = BiasedTwoLayer(3, 20, outputs=2)
    expected = np.maximum(np.asarray(x) @ np.asarray(params.W).T + np.asarray(params.b1), 0)
    expected = expected @ np.asarray(params.A).T
    np.testing.assert_allclose(net.first_outputs(params, x), expected, rtol=1e-4, atol=1e-5)
    assert two_layer.output_shape == params.A.shape


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"inputs": 0}, "`inputs` must be an integer >= 1"),
        ({"width": 0}, "`width` must be an integer >= 1"),
        ({"outputs": 0}, "`outputs` must be an integer >= 1"),
        ({"form": "bottle"}, "Did you mean 'bottleneck'"),
        ({"init": "experiments"}, "Did you mean 'experiment'"),
        ({"sigma_w": 0.0}, "`sigma_w` must be a positive number"),
        ({"sigma_v": -1.0}, "`sigma_v` must be a positive number"),
        ({"activation": "rellu"}, "Did you mean 'relu'"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        ResNet3(**({"inputs": 3, "width": 4, "outputs": 2} | arguments))


def test_inputs_and_parameters_of_other_networks_are_refused(getkey, no_shape_checker):
    net = ResNet3(3, 4, 4)
    params = net.init(key=getkey())
    with pytest.raises(ValueError, match=r"`x` must have shape \(n, 3\)"):
        net(params, jnp.ones((2, 4)))
    with pytest.raises(ValueError, match=r"with V of shape \(4, 4\), got params.V.shape=\(4, 2\)"):
        net(ResNet3(3, 4, 2).init(key=getkey()), jnp.ones((2, 3)))
    with pytest.raises(ValueError, match="of form 'bottleneck', got last_is_shared=False"):
        net(ResNet3(3, 4, 4, form="general").init(key=getkey()), jnp.ones((2, 3)))
    assert isinstance(params, ResNet3Params)
    for name in ("b1", "b2"):  # one entry would be added to all neurons
        one = eqx.tree_at(lambda p, name=name: getattr(p, name), params, jnp.ones(1))
        with pytest.raises(ValueError, match=rf"with {name} of shape \(4,\)"):
            net(one, jnp.ones((2, 3)))


@pytest.mark.parametrize("outputs", [2, 4])  # with as many as neurons the shapes would fit
def test_only_a_bottleneck_has_a_general_form(outputs, getkey):
    net = ResNet3(3, 4, outputs, form="general")
    with pytest.raises(ValueError, match="`form` must be 'bottleneck', got form='general'"):
        net.as_general(net.init(key=getkey()))
