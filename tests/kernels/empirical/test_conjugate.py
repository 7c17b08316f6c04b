# SPDX-License-Identifier: Apache-2.0
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.kernels import empirical_conjugate, empirical_ntk_traced


def rows(model, x):
    return jax.vmap(model)(x)


def gram(h1, h2=None):
    h1 = np.asarray(h1).reshape(h1.shape[0], -1)
    h2 = h1 if h2 is None else np.asarray(h2).reshape(h2.shape[0], -1)
    return h1 @ h2.T


def test_layers_of_an_equinox_model_by_default_by_path_and_by_function(x64):
    model = eqx.nn.MLP(4, 2, 9, 2, jnp.tanh, key=jr.key(0))
    x1, x2 = jr.normal(jr.key(1), (5, 4)), jr.normal(jr.key(2), (3, 4))

    def hidden(x, depth):
        for layer in model.layers[:depth]:
            x = jnp.tanh(jax.vmap(layer)(x))
        return x

    K = empirical_conjugate(rows, model, x1)
    np.testing.assert_allclose(K, gram(hidden(x1, 2)), rtol=1e-12)
    assert np.array_equal(K, K.T)
    cross = gram(hidden(x1, 1), hidden(x2, 1))
    for layer in ("layers/1/weight", "1/weight", lambda path: "/1/" in path):
        found = empirical_conjugate(rows, model, x1, x2, layer=layer)
        np.testing.assert_allclose(found, cross, rtol=1e-12)
    first = empirical_conjugate(rows, model, x1, layer="layers/0/weight")
    np.testing.assert_allclose(first, gram(x1), rtol=1e-12)


def test_convolutions_sum_activations_over_positions(networks, x64):
    case = networks.CASES["conv_nchw"]()
    net, x = networks.double(case.params), networks.double(networks.samples(case, 6))
    first = jax.vmap(lambda x: jax.nn.relu(net.first(x[None])))(x)
    K = empirical_conjugate(case.f, net, x, layer="second/weight")
    np.testing.assert_allclose(K, gram(first), rtol=1e-12)
    last = jax.vmap(lambda h: net.pool(jnp.tanh(net.second(h))).ravel())(first)
    np.testing.assert_allclose(empirical_conjugate(case.f, net, x), gram(last), rtol=1e-12)


def test_a_flax_model_has_layers_by_their_names():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.gelu(nn.Conv(4, (3, 3))(x))
            x = nn.gelu(nn.Dense(8)(x.reshape(x.shape[0], -1)))
            return nn.Dense(3)(x)

    model, x = Net(), jr.normal(jr.key(1), (5, 4, 4, 2))
    params = model.init(jr.key(0), x)
    _, state = model.apply(params, x, capture_intermediates=True)
    between = state["intermediates"]
    for layer, before in ((None, "Dense_0"), ("Dense_0/kernel", "Conv_0")):
        h = nn.gelu(between[before]["__call__"][0])
        K = empirical_conjugate(model.apply, params, x, layer=layer)
        np.testing.assert_allclose(K, gram(h), rtol=1e-5)
        assert K.dtype == jnp.float32


def test_the_tangent_kernel_of_the_last_weight_is_the_conjugate_kernel(x64):
    model = eqx.nn.MLP(4, "scalar", 9, 2, jax.nn.relu, key=jr.key(0))
    x1, x2 = jr.normal(jr.key(1), (5, 4)), jr.normal(jr.key(2), (3, 4))
    expected = empirical_ntk_traced(
        rows, model, x1, x2, trained=lambda path: path == "layers/2/weight"
    )
    np.testing.assert_allclose(empirical_conjugate(rows, model, x1, x2), expected, rtol=1e-12)


def test_a_weight_that_is_used_several_times_adds_up_its_inputs(networks, x64):
    case = networks.CASES["shared_residual"]()
    params, x = networks.double(case.params), networks.double(networks.samples(case, 4))
    h, taken = x, []
    for _ in range(3):
        taken.append(h)
        h = h + jnp.tanh(h @ params["W"])
    expected = sum(gram(h) for h in taken)
    np.testing.assert_allclose(empirical_conjugate(case.f, params, x, layer="W"), expected)
    np.testing.assert_allclose(empirical_conjugate(case.f, params, x), gram(h))


def test_the_last_layer_is_not_guessed_and_errors_list_the_layers(networks, no_shape_checker):
    def tied(p, x):
        return jnp.tanh(x @ p["W"] @ p["E"]) @ p["E"].T

    params: dict[str, Any] = {"W": jnp.ones((3, 3)), "E": jnp.ones((3, 5))}
    x = jnp.ones((2, 3))
    with pytest.raises(ValueError, match=r"after W, the last layer that was found, .* uses E in"):
        empirical_conjugate(tied, params, x)
    np.testing.assert_allclose(empirical_conjugate(tied, params, x, layer="W"), gram(x))
    with pytest.raises(ValueError, match=r"got layer='V', which fits none. Layers: W\."):
        empirical_conjugate(tied, params, x, layer="V")
    with pytest.raises(ValueError, match="`layer` must be None, the path of a weight or a"):
        empirical_conjugate(tied, params, x, layer=3)  # pyright: ignore[reportArgumentType]  # on purpose
    model = eqx.nn.MLP(3, 2, 4, 1, key=jr.key(0))
    both = "which fits layers/0/weight, layers/1/weight"
    with pytest.raises(ValueError, match=both):
        empirical_conjugate(rows, model, x, layer="weight")
    with pytest.raises(ValueError, match="`f` must have a weight that enters it in matrix"):
        empirical_conjugate(lambda w, x: x * w[None, :], jnp.ones(3), x)
