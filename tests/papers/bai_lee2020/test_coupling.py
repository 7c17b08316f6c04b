# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy import data, escape
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers import bai_lee2020

M, D, N = 10, 4, 6


@pytest.fixture(params=range(2))
def problem(request, x64):
    key_x, key_0, key_W, key_y = jr.split(jr.key(100 + request.param), 4)
    net = TwoLayer(D, M, activation="relu3", init="symmetric")
    x, y = data.sphere(N, D, key=key_x), jnp.sign(jr.normal(key_y, (N,)))
    return net, net.init(key=key_0), jr.normal(key_W, (M, D)) / 2, x, y


def over_all_signs(net, params, W, x):
    """f, f^L and f^Q at each of the 2^m sign vectors, by plain loops over the formulas."""
    a, W0, W, x = (np.asarray(v) for v in (params.a, params.W, W, x))
    Z0, root = x @ W0.T, math.sqrt(net.width)
    rows = []
    for s in itertools.product((1.0, -1.0), repeat=net.width):
        Z = x @ (np.array(s)[:, None] * W).T
        f = np.maximum(Z0 + Z, 0) ** 3 / 6 @ a / root
        f_L = (np.maximum(Z0, 0) ** 2 / 2 * Z) @ a / root
        f_Q = (np.maximum(Z0, 0) / 2 * Z**2) @ a / root
        rows.append((f, f_L, f_Q))
    return (np.array(part) for part in zip(*rows, strict=True))


def test_the_symmetric_start_is_zero(problem):
    # BL-T1: measured 1.8e-17.
    net, params, _, x, _ = problem
    assert float(jnp.max(jnp.abs(net(params, x)))) < 1e-12


def test_signs_cancel_the_linear_term_and_keep_the_quadratic_one(problem):
    # BL-T2: measured 5e-18, 2e-15, 0.
    net, params, W, x, _ = problem
    _, f_L, f_Q = over_all_signs(net, params, W, x)
    assert np.max(np.abs(f_L.mean(axis=0))) < 1e-12
    variance = bai_lee2020.linear_variance(net, params, W, x)
    np.testing.assert_allclose((f_L**2).mean(axis=0), variance, rtol=1e-12)
    assert np.max(np.abs(f_Q - f_Q[:1])) < 1e-12
    np.testing.assert_allclose(
        escape.quadratic_output(net, params, W, x), f_Q[0], rtol=1e-12, atol=1e-15
    )


def test_no_bound_is_exceeded(problem):
    # BL-T3: measured ratios up to .054, .072, .177.
    net, params, W, x, _ = problem
    f, f_L, f_Q = over_all_signs(net, params, W, x)
    args = (net, params, W, x)
    bounds = bai_lee2020.term_bounds(*args)
    assert np.all(np.abs(f_Q[0]) <= bounds.quadratic)
    assert np.all(bai_lee2020.linear_variance(*args) <= bounds.linear_variance)
    remainder = np.max(np.abs(f - f_L - f_Q), axis=0)
    assert np.all(remainder <= bounds.remainder)


@pytest.mark.parametrize("loss", ["logistic", "pseudo-huber"])
def test_the_risks_are_within_the_coupling_bound(problem, loss):
    # BL-T4: measured .039 and .054 against a bound of .354.
    net, params, W, x, y = problem
    risk = escape.RandomizedRisk(net, params, loss)
    f_Q = escape.quadratic_output(net, params, W, x)
    distance = abs(risk.exact(W, (x, y)) - jnp.mean(ul.losses.pointwise(loss)(f_Q, y)))
    bound = bai_lee2020.coupling_bound(net, params, W, x, loss)
    assert 0 < distance <= bound
    # Tight enough to mean something: at half the movement both fall, the bound no slower.
    assert bai_lee2020.coupling_bound(net, params, W / 2, x, loss) <= bound / 4


def test_the_quadratic_bound_is_attained():
    # Equal neurons that move alike, with equal output weights: every inequality is an equality.
    net = TwoLayer(1, 2, activation="relu3", init="symmetric")
    params = ul.nets.TwoLayerParams(W=jnp.full((2, 1), 2.0), a=jnp.array([1.0, 1.0]))
    x, W = jnp.ones((1, 1)), jnp.full((2, 1), 0.5)
    value = escape.quadratic_output(net, params, W, x)
    bound = bai_lee2020.term_bounds(net, params, W, x).quadratic
    np.testing.assert_allclose(value, bound, rtol=1e-6)


def test_the_remainder_bound_is_attained(x64):
    # All on the active side: the remainder is exactly the cubic term.
    net = TwoLayer(1, 4, activation="relu3", init="symmetric")
    params = ul.nets.TwoLayerParams(W=jnp.full((4, 1), 2.0), a=jnp.ones(4))
    x, W = jnp.ones((1, 1)), jnp.full((4, 1), 0.5)
    z0, z, root = 2.0, 0.5, 2.0
    rest = 4 / root * ((z0 + z) ** 3 / 6 - z0**3 / 6 - z0**2 / 2 * z - z0 / 2 * z**2)
    bound = bai_lee2020.term_bounds(net, params, W, x).remainder
    np.testing.assert_allclose(bound, rest, rtol=1e-12)


@pytest.mark.parametrize(("d", "m", "largest"), [(10, 1000, 5.3), (50, 2000, 9.2), (5, 10000, 4.6)])
def test_initial_norms_are_within_their_bound(d, m, largest):
    # BL-T14: largest norms 5.3, 9.2, 4.6 within 14.2, 26.9, 12.5; each form fails with
    # probability at most delta = .01, and in truth far less.
    net = TwoLayer(d, m, init="symmetric", init_scale=0.5)
    measured = 2 * float(jnp.max(jnp.linalg.norm(net.init(key=jr.key(3)).W, axis=1)))
    sharp = bai_lee2020.init_norm_bound(d, m, delta=0.01, form="concentration")
    assert measured <= sharp < bai_lee2020.init_norm_bound(d, m, delta=0.01)
    assert measured == pytest.approx(largest, rel=0.12)


def test_the_recorded_values_of_the_initial_norm_bound():
    # BL-T14, at delta = .1 (which gives its three numbers).
    bounds = [
        bai_lee2020.init_norm_bound(d, m, delta=0.1)
        for d, m in ((10, 1000), (50, 2000), (5, 10000))
    ]
    np.testing.assert_allclose(bounds, [14.2, 26.9, 12.5], atol=0.06)


def test_a_cube_has_the_constants_that_its_derivatives_show(x64):
    sigma = ul.polynomial([3.0, 0, 0, -0.5])
    C1, C2, C3 = bai_lee2020.smoothness(sigma)
    t = jnp.linspace(-3.0, 3.0, 61)
    np.testing.assert_allclose(jnp.abs(sigma.derivative(1)(t)), C1 * t**2, atol=1e-13)
    np.testing.assert_allclose(jnp.abs(sigma.derivative(2)(t)), C2 * jnp.abs(t), atol=1e-13)
    np.testing.assert_allclose(jnp.abs(sigma.derivative(3)(t)), C3, atol=1e-13)


def test_float32_parameters_give_float64_bounds(getkey):
    net = TwoLayer(D, M, activation="relu3", init="symmetric")
    params, x = net.init(key=getkey()), data.sphere(N, D, key=getkey())
    W = jr.normal(getkey(), (M, D))
    single = bai_lee2020.linear_variance(net, params, W, x)
    with jax.enable_x64(True):
        double = bai_lee2020.linear_variance(net, params, W, x)
    assert single.dtype == np.float64
    np.testing.assert_array_equal(single, double)


def test_what_the_theory_does_not_cover_is_refused(getkey):
    x = data.sphere(N, D, key=getkey())
    net = TwoLayer(D, M, activation="relu3", init="gaussian")
    params = net.init(key=getkey())
    with pytest.raises(ValueError, match="`params` must make the network zero, got outputs up to"):
        bai_lee2020.coupling_bound(net, params, 0 * params.W, x)
    with pytest.raises(ValueError, match="`loss` must be Lipschitz, got loss='squared'"):
        bai_lee2020.coupling_bound(net, params, params.W, x, "squared")
    for name in ("relu", "tanh", "quadratic"):
        with pytest.raises(ValueError, match="`activation` must vanish to third order at 0"):
            bai_lee2020.smoothness(ul.activation(name))
    with pytest.raises(ValueError, match="`activation` must vanish to third order at 0"):
        bai_lee2020.smoothness(ul.polynomial([0, 0, 1.0]))
    with pytest.raises(ValueError, match="`delta` must be a failure probability"):
        bai_lee2020.init_norm_bound(3, 4, delta=1.5)
    with pytest.raises(ValueError, match="`form` must be a known name"):
        bai_lee2020.init_norm_bound(3, 4, form="papers")


def test_a_movement_of_the_output_weights_is_refused_where_it_would_be_left_out(getkey):
    net = TwoLayer(2, 4, "relu3", init="symmetric")
    params = net.init(key=getkey())
    delta = TwoLayerParams(W=jnp.ones((4, 2)), a=jnp.arange(4.0))
    for function in (ul.escape.quadratic_output, ul.papers.bai_lee2020.term_bounds):
        with pytest.raises(ValueError, match="`delta` must move the hidden layer alone"):
            function(net, params, delta, jnp.eye(2))
    still = TwoLayerParams(W=jnp.ones((4, 2)), a=jnp.zeros(4))
    alone = ul.escape.quadratic_output(net, params, still.W, jnp.eye(2))
    np.testing.assert_array_equal(ul.escape.quadratic_output(net, params, still, jnp.eye(2)), alone)
