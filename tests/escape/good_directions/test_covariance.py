# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.nichani2022 import limit_eigenvalues, spectral_blocks, sphere_covariance
from unlazy.special import gegenbauer_rule

SIGMOID = ul.activation("sigmoid", shift=1.5)


def sphere_net(d, m, *, key, sigma=SIGMOID):
    net = TwoLayer(d, m, sigma, init="sphere")
    return net, net.init(key=key)


def pair_moment(sigma, u, v, *, d):
    """E[s'(u.x) s'(v.x) x x^T] by a product rule over the plane of u and v; no expansion."""
    rule, inner = gegenbauer_rule(d, 80), gegenbauer_rule(d - 1, 80)
    rho = u @ v
    first = u
    second = (v - rho * u) / np.sqrt(1 - rho**2)
    x1 = rule.nodes[:, None] * np.ones(80)
    x2 = np.sqrt(1 - x1**2) * inner.nodes
    with jax.enable_x64(True):
        slope = lambda t: np.asarray(sigma.derivative(1)(jnp.asarray(np.sqrt(d) * t)))  # noqa: E731
        weight = rule.weights[:, None] * inner.weights
        weight = weight * slope(x1) * slope(rho * x1 + np.sqrt(1 - rho**2) * x2)
    rest = np.sum(weight * (1 - x1**2 - x2**2)) / (d - 2)
    mixed = np.outer(first, second)
    plane = np.sum(weight * x1**2) * np.outer(first, first)
    plane += np.sum(weight * x2**2) * np.outer(second, second)
    plane += np.sum(weight * x1 * x2) * (mixed + mixed.T)
    others = np.eye(d) - np.outer(first, first) - np.outer(second, second)
    return d * (plane + rest * others)


@pytest.mark.parametrize("rho", [0.3, -0.8, 0.999999, -0.9999])
def test_a_block_of_the_covariance_is_the_integral_over_the_plane_of_the_pair(x64, rho):
    d = 6
    u = np.eye(d)[0]
    v = rho * u + np.sqrt(1 - rho**2) * np.eye(d)[1]
    W = jnp.asarray(np.stack([u, v, u, v]))
    params = TwoLayerParams(W=W, a=jnp.array([1.0, -1.0, -1.0, 1.0]))
    net = TwoLayer(d, 4, SIGMOID, init="sphere")
    Sigma = np.asarray(sphere_covariance(net, params).dense())
    # In twin coordinates a factor 2, over m = 4; the two neurons have opposite signs.
    np.testing.assert_allclose(
        Sigma[:d, d:],
        -2 / 4 * pair_moment(SIGMOID, u, v, d=d),
        atol=2e-12 if abs(rho) > 0.99 else 1e-15,
    )


@pytest.mark.slow
def test_the_covariance_is_that_of_a_large_sample(x64, getkey):
    # NB-32. Over 2e5 points; entries have standard errors up to 8e-6 sqrt(10): six of them, 24^2
    # entries, fail with probability 1e-6.
    d = 6
    net, params = sphere_net(d, 8, key=getkey())
    Sigma = np.asarray(sphere_covariance(net, params).dense())
    x = ul.data.sphere(200_000, d, radius=d**0.5, key=getkey())
    slopes = SIGMOID.derivative(1)(x @ params.W[:4].T) * np.sqrt(2 / 8)
    features = (slopes[:, :, None] * x[:, None, :]).reshape(len(x), -1)
    errors = jnp.std(features[:, :, None] * features[:, None, :], axis=0) / len(x) ** 0.5
    assert np.max(np.abs(Sigma - features.T @ features / len(x)) / errors) < 6


def test_the_energy_is_the_dense_form_and_its_gradient_twice_the_product(x64, getkey):
    # NB-13 at d = 10, m = 60, blocks smaller than the whole included.
    d, m = 10, 60
    net, params = sphere_net(d, m, key=getkey())
    covariance = sphere_covariance(net, params)
    W = jr.normal(getkey(), (m, d))
    u = ((W[: m // 2] - W[m // 2 :]) / np.sqrt(2)).reshape(-1)
    Sigma = covariance.dense()
    assert float(covariance.energy(W)) == pytest.approx(float(u @ Sigma @ u), rel=1e-13)
    half = (Sigma @ u).reshape(m // 2, d) * np.sqrt(2)
    gradient = jax.jit(jax.grad(covariance.energy))(W)
    np.testing.assert_allclose(gradient, np.concatenate([half, -half]), atol=1e-13)
    # Twins that move alike move nothing.
    assert float(covariance.energy(jnp.concatenate([W[:30], W[:30]]))) == 0.0


def test_blocks_of_neurons_do_not_change_the_product(x64, getkey, monkeypatch):
    net, params = sphere_net(5, 22, key=getkey())
    covariance = sphere_covariance(net, params)
    W = jr.normal(getkey(), (22, 5))
    whole = float(covariance.energy(W))
    monkeypatch.setattr("unlazy.escape.good_directions.covariance._ENTRIES", 44)
    assert float(covariance.energy(W)) == pytest.approx(whole, rel=1e-13)  # 11 rows in blocks of 4


@pytest.mark.slow
def test_the_energy_is_the_mean_square_of_the_linear_term(getkey):
    # Monte Carlo with the standard error; six of them fail with probability 2e-9. No x64, no twins.
    d, m = 8, 20
    net, params = sphere_net(d, m, key=getkey(), sigma=ul.activation("tanh", shift=0.5))
    loose = TwoLayerParams(W=params.W.at[3].set(params.W[0]), a=params.a.at[2].set(-0.5))
    W = jr.normal(getkey(), (m, d))
    x = ul.data.sphere(100_000, d, radius=d**0.5, key=getkey())
    slope = net.activation.derivative(1)(x @ loose.W.T)
    f_L = np.asarray((slope * (x @ W.T)) @ loose.a / np.sqrt(m), np.float64)
    energy = float(sphere_covariance(net, loose).energy(W))
    error = np.std(f_L**2) / np.sqrt(len(x))
    assert abs(energy - np.mean(f_L**2)) < 6 * error
    assert error < 0.01 * energy


def test_inputs_and_weights_of_other_norms_are_the_same_problem(x64, getkey):
    # sigma'(w.x) depends on the product of the norms; the features on that of x besides.
    d, m = 4, 6
    net, params = sphere_net(d, m, key=getkey())
    W = jr.normal(getkey(), (m, d))
    longer = TwoLayerParams(W=2 * params.W, a=params.a)
    whole = float(sphere_covariance(net, params).energy(W))
    other = float(sphere_covariance(net, longer, radius=1.0).energy(W))  # radius sqrt(4) before
    assert other == pytest.approx(whole / 4, rel=1e-12)


@pytest.mark.parametrize(
    ("d", "m", "expected"),
    [
        (6, 300, (4.73e-3, 1.46e-3, 9.76e-4, 1.28e-5, 1.46e-4)),
        pytest.param(6, 600, (4.78e-3, 1.43e-3, 1.02e-3, 1.09e-5, 1.47e-4), marks=pytest.mark.slow),
        pytest.param(
            10, 200, (4.50e-3, 1.06e-3, 3.99e-4, 1.18e-5, 2.25e-4), marks=pytest.mark.slow
        ),
        pytest.param(
            10, 500, (4.52e-3, 9.47e-4, 5.36e-4, 7.99e-6, 2.30e-4), marks=pytest.mark.slow
        ),
    ],
)
def test_the_spectrum_has_three_blocks(d, m, expected, getkey):
    # NB-33: other neurons than the reference's, hence within some percent of its numbers.
    net, params = sphere_net(d, m, key=getkey())
    covariance = sphere_covariance(net, params)
    values = ul.linalg.eigh(covariance.dense()).values
    blocks = spectral_blocks(values, d, 1, parameters=m * d)
    n1, n2 = blocks.edges
    assert (n1, n2) == (d + 1, (d + 1) * (d + 2) // 2 - 1)
    assert blocks.gaps[0] > 3
    assert blocks.gaps[1] > 30
    measured = (values[n1 - 1], values[n1], values[n2 - 1], values[n2], m * blocks.tail)
    np.testing.assert_allclose(measured, expected, rtol=0.2)
    assert m * blocks.tail == pytest.approx(expected[-1], rel=0.02)
    limit = limit_eigenvalues(SIGMOID, d, 1)
    np.testing.assert_allclose(values[:d], limit[1], rtol=0.35)
    rule = gegenbauer_rule(d, 100)
    with jax.enable_x64(True):
        slope = np.asarray(SIGMOID.derivative(1)(jnp.asarray(np.sqrt(d) * rule.nodes)))
    trace = d * rule.weights @ slope**2
    assert values.sum() == pytest.approx(trace, rel=1e-8)  # float32 weights are of norm 1 + 1e-8
    assert covariance.trace() == pytest.approx(trace, rel=1e-8)


def test_bad_arguments_are_named(getkey):
    net = TwoLayer(5, 4, SIGMOID)
    with pytest.raises(ValueError, match="`params` must have hidden weights of one norm"):
        sphere_covariance(net, net.init(key=getkey()))
    net, params = sphere_net(2, 4, key=getkey())
    with pytest.raises(ValueError, match="`net` must have at least 3 inputs"):
        sphere_covariance(net, params)
    net, params = sphere_net(4, 4, key=getkey(), sigma=ul.activation("relu"))
    with pytest.raises(ValueError, match=r"`net.activation` must be smooth .* relu"):
        sphere_covariance(net, params)


def test_movements_of_another_shape_or_kind_are_not_taken_for_one(getkey, no_shape_checker):
    net, params = sphere_net(4, 6, key=getkey())
    covariance = sphere_covariance(net, params)
    whole = np.arange(24).reshape(6, 4) % 5
    expected = covariance.energy(np.asarray(whole, np.float32))
    np.testing.assert_allclose(covariance.energy(whole), expected, rtol=1e-6)  # it was 0
    with pytest.raises(ValueError, match=r"`W` must be .* of shape \(6, 4\), got W.shape=\(3, 4\)"):
        covariance.energy(jnp.ones((3, 4)))
    with pytest.raises(ValueError, match="`radius` must be a positive number, got radius=-1"):
        sphere_covariance(net, params, radius=-1)
