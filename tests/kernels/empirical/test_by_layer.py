# SPDX-License-Identifier: Apache-2.0
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels import empirical_ntk_by_layer, empirical_ntk_traced


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(4, (3, 3))(x))
        x = nn.LayerNorm()(nn.tanh(nn.Conv(3, (3, 3), strides=(2, 2))(x)))
        return nn.Dense(2)(x.reshape(x.shape[0], -1))


@pytest.fixture(scope="module")
def problem():
    x = jax.random.normal(jax.random.key(0), (7, 6, 5, 2))
    return Network().apply, Network().init(jax.random.key(1), x), x


def by_jacobian(problem, layer: str, sign: bool = False):
    """The kernel of the parameters under one name, from their Jacobian."""
    f, params, x = problem
    jacobian = jax.jacrev(f)(params, x)["params"][layer]
    flat = [g.reshape(len(x), g.shape[1], -1) for g in jax.tree.leaves(jacobian)]
    G = jnp.concatenate(flat, axis=2)
    G = jnp.sign(G) if sign else G
    return np.asarray(jnp.einsum("iap,jap->ij", G, G, precision="highest"))


def test_every_layer_has_the_kernel_of_its_jacobian(problem):
    kernels = empirical_ntk_by_layer(*problem)
    names = ["Conv_0", "Conv_1", "Dense_0", "LayerNorm_0"]
    assert sorted(kernels) == [f"params/{name}" for name in names]
    for name in names:
        expected = by_jacobian(problem, name)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(kernels[f"params/{name}"], expected, atol=2e-5 * scale)


def test_layers_add_up_to_the_kernel(problem):
    total = sum(empirical_ntk_by_layer(*problem).values())
    expected = np.asarray(empirical_ntk_traced(*problem))
    np.testing.assert_allclose(total, expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("rows", [1, 3])
def test_little_memory_gives_the_same_kernels(problem, rows):
    whole = empirical_ntk_by_layer(*problem)
    in_blocks = empirical_ntk_by_layer(*problem, memory=rows * 20_000)
    for name, K in whole.items():
        np.testing.assert_allclose(in_blocks[name], K, atol=1e-5 * np.abs(K).max())
        np.testing.assert_array_equal(in_blocks[name], in_blocks[name].T)


def test_signs_of_the_gradients_are_taken_entry_by_entry(problem):
    kernels = empirical_ntk_by_layer(*problem, sign="both")
    np.testing.assert_allclose(
        kernels["params/Dense_0"], by_jacobian(problem, "Dense_0", sign=True), rtol=1e-6
    )


def test_a_bias_belongs_to_the_weight_whose_products_it_is_added_to():
    def f(p, x):
        return jnp.tanh(x @ p["W"] + p["b"][None]) @ p["a"]

    params = {"W": jnp.ones((2, 3)), "b": jnp.ones(3), "a": jnp.ones(3)}
    assert list(empirical_ntk_by_layer(f, params, jnp.eye(2))) == ["W, b", "a"]
    assert list(empirical_ntk_by_layer(f, params, jnp.eye(2), trained=lambda p: p == "b")) == ["b"]


def test_progress_ends_with_all_entries(problem):
    seen = []
    empirical_ntk_by_layer(*problem, memory=40_000, progress=lambda *a: seen.append(a))
    assert seen[-1] == (49, 49)
    assert seen == sorted(seen)
