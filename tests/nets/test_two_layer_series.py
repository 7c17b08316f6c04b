# SPDX-License-Identifier: Apache-2.0
"""The closed form for two-layer networks, against the generic path and the paper's checks."""

import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.activations import polynomial
from unlazy.nets import TwoLayer, TwoLayerParams, partition
from unlazy.taylor import NoTaylorTermError, expand, terms

ACTIVATIONS = (
    *("relu", "relu3", "sigmoid", "tanh", "erf", "softplus", "gelu", "sin", "cos", "exp"),
    *("quadratic", "identity"),
)


def problem(activation, m=12, d=4, n=6, scale=0.3, init="gaussian"):
    net = TwoLayer(inputs=d, width=m, activation=activation, init=init)
    params = net.init(key=jr.key(0))
    key_W, key_a, key_x = jr.split(jr.key(1), 3)
    delta = TwoLayerParams(scale * jr.normal(key_W, (m, d)), scale * jr.normal(key_a, (m,)))
    x = jr.normal(key_x, (n, d))
    return net, params, delta, x / jnp.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("trained", ["hidden", "last", "all"])
def test_the_closed_form_is_the_generic_path(activation, trained, x64):
    net, params, delta, x = problem(activation)
    delta, _ = partition(delta, trained)
    closed = terms(net, params, delta, x, 8)
    generic = terms(lambda params, x: net(params, x), params, delta, x, 8)
    np.testing.assert_allclose(closed, generic, rtol=1e-11, atol=1e-15)


# Each compiles for seconds: those whose derivatives grew fastest always run, the rest when asked.
@pytest.mark.parametrize(
    "activation",
    [
        name if name in ("tanh", "sigmoid") else pytest.param(name, marks=pytest.mark.slow)
        for name in ACTIVATIONS
    ],
)
def test_the_closed_form_keeps_its_digits_to_order_forty(activation):
    net, params, delta, x = problem(activation, scale=1.0)
    with jax.enable_x64(True):
        w, d, y = jax.tree.map(lambda p: p.astype(jnp.float64), (params, delta, x))
        exact = np.asarray(terms(lambda params, x: net(params, x), w, d, y, 40))
        np.testing.assert_allclose(terms(net, w, d, y, 40), exact, rtol=1e-9, atol=1e-14)
    size = np.max(np.abs(exact), axis=1, keepdims=True) + 1e-30
    found = np.asarray(terms(net, params, delta, x, 40), np.float64)
    # The k-th coefficient is of degree k in inputs with relative errors of 6e-8 each.
    np.testing.assert_allclose(found / size, exact / size, rtol=0, atol=1e-4)


def test_a_polynomial_moved_far_ends_at_its_degree():
    net, params, delta, x = problem(polynomial([1, 0, 3]), scale=100.0)
    assert np.all(np.isfinite(terms(net, params, delta, x, 40)))  # z^40 overflows


def test_a_term_is_the_formula_with_its_factorials(x64):
    # BL-8, neuron by neuron, with the second derivative of sin written out.
    net, params, delta, x = problem("sin")
    hidden, _ = partition(delta, "hidden")
    z0, z = np.asarray(x @ params.W.T), np.asarray(x @ delta.W.T)
    wanted = (-np.sin(z0) / 2 * z**2) @ np.asarray(params.a) / math.sqrt(12)
    np.testing.assert_allclose(terms(net, params, hidden, x, 2)[2], wanted, rtol=1e-13)


@pytest.mark.parametrize(("activation", "last"), [("exp", 1e-6), ("sin", 1e-6), ("tanh", 1e-2)])
def test_partial_sums_converge_to_the_network(activation, last, x64):
    # BL-T5: m = 12, d = 4, movement 0.3 N(0, 1); tanh is not monotone in its first orders.
    net, params, delta, x = problem(activation)
    hidden, _ = partition(delta, "hidden")
    parts = terms(net, params, hidden, x, 8)
    exact = net(TwoLayerParams(params.W + delta.W, params.a), x)
    errors = [float(jnp.max(jnp.abs(jnp.sum(parts[: k + 1], 0) - exact))) for k in range(9)]
    assert errors[8] < errors[5] < errors[2]
    assert errors[8] < last


def test_the_rectified_cube_is_the_sum_of_three_terms_where_no_sign_changes(x64):
    # BL-T6: W at scale 3e-4, so that no pre-activation crosses 0; tolerance 1e-12.
    net, params, delta, x = problem("relu3", scale=3e-4, init="symmetric")
    hidden, _ = partition(delta, "hidden")
    new = TwoLayerParams(params.W + delta.W, params.a)
    same = jnp.sign(net.preactivations(params, x)) == jnp.sign(net.preactivations(new, x))
    assert bool(jnp.all(same))
    parts = terms(net, params, hidden, x, 5)
    np.testing.assert_allclose(jnp.sum(parts, 0), net(new, x), rtol=0, atol=1e-12)
    np.testing.assert_allclose(parts[0], 0, atol=1e-16)  # BL-T1: the symmetric start is zero
    assert not np.any(parts[4:])


def test_flipping_signs_leaves_the_even_terms_of_each_neuron(x64):
    # BL-T2: over all signs of the neurons' movements the linear and cubic terms average to 0.
    net, params, delta, x = problem("tanh", m=6)
    signs = jnp.asarray(list(itertools.product([-1.0, 1.0], repeat=6)))

    def flipped(s):
        return terms(net, params, TwoLayerParams(s[:, None] * delta.W, jnp.zeros(6)), x, 3)

    every = jax.vmap(flipped)(signs)
    mean = jnp.mean(every, axis=0)
    np.testing.assert_allclose(mean[jnp.array([1, 3])], 0, atol=1e-15)
    np.testing.assert_allclose(
        every[:, 2], jnp.broadcast_to(mean[2], every[:, 2].shape), atol=1e-15
    )


def test_the_model_of_a_two_layer_network_trains_under_jit():
    net, params, delta, x = problem("relu3")
    g = expand(net, params, 2)
    grad = jax.jit(jax.grad(lambda new: jnp.sum(g(new, x) ** 2)))
    new = jax.tree.map(jnp.add, params, delta)
    lam = expand(lambda params, x: net(params, x), params, 2)
    other = jax.jit(jax.grad(lambda new: jnp.sum(lam(new, x) ** 2)))(new)
    for ours, theirs in zip(jax.tree.leaves(grad(new)), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("activation", "order"), [("relu", 1), ("relu3", 3)])
def test_a_neuron_at_its_kink_has_no_term_of_that_order(activation, order):
    net, params, delta, x = problem(activation)
    params = TwoLayerParams(params.W.at[0].set(0.0), params.a)
    parts = terms(net, params, delta, x, order - 1)
    assert np.all(np.isfinite(parts))
    with pytest.raises(NoTaylorTermError, match=f"no term of order {order}"):
        terms(net, params, delta, x, order)
    still = TwoLayerParams(delta.W.at[0].set(0.0), delta.a)
    assert np.all(np.isfinite(terms(net, params, still, x, order)))


def test_a_kink_that_cancels_between_twins_is_no_kink(x64):
    # Two neurons at their kink move alike with opposite signs in front: together they are smooth.
    net, params, delta, x = problem("relu", init="antisymmetric")
    params = TwoLayerParams(params.W.at[0].set(0.0).at[6].set(0.0), params.a)
    alike = TwoLayerParams(delta.W.at[6].set(delta.W[0]), jnp.zeros(12))
    rest = TwoLayerParams(alike.W.at[0].set(0.0).at[6].set(0.0), jnp.zeros(12))
    parts = terms(net, params, alike, x, 2)
    np.testing.assert_allclose(parts, terms(net, params, rest, x, 2), rtol=0, atol=1e-15)
