# SPDX-License-Identifier: Apache-2.0
"""Corollary 3 and Theorem 4 on the regularised randomised risk, over all signs."""

import itertools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from scipy.optimize import minimize

from unlazy import data, escape
from unlazy.nets import TwoLayer
from unlazy.papers import bai_lee2020
from unlazy.papers.bai_lee2020.landscape import REGULARIZER_CONSTANT


def penalty(W):
    return np.sum(np.sum(W**2, axis=1) ** 2) ** 2


def second_difference(W, V, h=1e-3):
    return (penalty(W + h * V) - 2 * penalty(W) + penalty(W - h * V)) / h**2


def test_the_penalty_adds_its_value_slope_and_mean_curvature(small):
    """By finite differences over all signs of the direction; the draws' errors do not change."""
    net, params, x, y, _, W, W_star = small(5, m=6)
    V, V_star = (np.asarray(v, np.float64) for v in (W, W_star))
    plain, penalised = (
        bai_lee2020.randomized_landscape(
            net, params, V, V_star, x, y, strength=strength, pairs=20, key=jr.key(0)
        )
        for strength in (0.0, 0.3)
    )
    forms = [
        second_difference(V, np.array(s)[:, None] * V_star)
        for s in itertools.product((1.0, -1.0), repeat=6)
    ]
    assert penalised.risk - plain.risk == pytest.approx(0.3 * penalty(V), rel=1e-9)
    slope = 0.3 * (penalty(1.0001 * V) - penalty(0.9999 * V)) / 2e-4
    added = penalised.gradient_along_W - plain.gradient_along_W
    assert added == pytest.approx(slope, rel=1e-6)
    curved = penalised.curvature - plain.curvature
    assert curved == pytest.approx(0.3 * np.mean(forms), rel=1e-4)
    rest = 3 * 0.3 * penalty(V) - 0.3 * REGULARIZER_CONSTANT * penalty(V_star)
    assert penalised.excess - plain.excess == pytest.approx(curved - added + rest, rel=1e-9)
    assert penalised.excess_error == pytest.approx(plain.excess_error, rel=1e-9)


def test_the_penalty_never_raises_the_excess_and_one_movement_attains_its_constant(small):
    """Corollary 3 follows from Theorem 2; with equality at |W| = 8.4^(1/2) |W*|."""
    net, params, x, y, _, W, W_star = small(6, m=6)
    options = {"pairs": 20, "key": jr.key(0)}

    def added(V, V_star):
        found = [
            bai_lee2020.randomized_landscape(
                net, params, V, V_star, x, y, strength=strength, **options
            ).excess
            for strength in (0.0, 1e-3)
        ]
        return (found[1] - found[0]) / 1e-3 / penalty(V_star)

    W, W_star = (np.asarray(v, np.float64) for v in (W, W_star))
    assert all(added(size * W, W_star) < 0 for size in (0.5, 3.0))
    one = np.zeros((6, 3))
    one[2] = [0.3, -0.2, 0.1]
    assert added(math.sqrt(8.4) * one, one) == pytest.approx(0, abs=1e-6 * REGULARIZER_CONSTANT)
    assert added(math.sqrt(6.0) * one, one) < -100


def test_stationary_points_of_the_penalised_randomised_risk_keep_the_promise_of_theorem_4(x64):
    """2-XOR on all corners with the theorem's own penalty: three starts, and the saddle at zero."""
    m, d, gamma, epsilon = 8, 4, 0.2, 0.05
    x = data.corners(d)
    y = x[:, 0] * x[:, 1]
    net = TwoLayer(d, m, "relu3", "symmetric", init_scale=d**-0.5)
    params = net.init(key=jr.key(0))
    star = np.asarray(bai_lee2020.two_xor(net, params).dW)

    def report(W):
        return bai_lee2020.stationary_risk(
            net, params, W, star, x, y, epsilon=epsilon, gamma=gamma, pairs=None
        )

    saddle = report(np.zeros((m, d)))
    theory = saddle.theory
    risk = escape.RandomizedRisk(net, params, "logistic", strength=theory.strength)
    value = jax.jit(jax.value_and_grad(lambda w: risk.exact(w.reshape(m, d), (x, y))))
    ends = []
    for seed in range(3):
        start = 0.3 * m**-0.25 * np.random.default_rng(seed).standard_normal(m * d)
        end = minimize(
            lambda w: tuple(np.asarray(part) for part in value(jnp.asarray(w))),
            start,
            jac=True,
            method="L-BFGS-B",
            options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500},
        )
        ends.append(end.x.reshape(m, d))
    found = [report(W) for W in ends]
    assert all(end.holds for end in found)
    assert not saddle.holds  # stationary, and above the promise: the second order is needed
    # Measured .08913 at each end against a promise of .4399.
    np.testing.assert_allclose([end.landscape.risk for end in found], 0.08913, atol=1e-4)
    assert theory.risk == pytest.approx((1 + gamma) * saddle.opt + epsilon)
    # The inequality of Corollary 3 holds with the theorem's tolerance, and gives C' = C.
    assert all(end.landscape.excess <= epsilon for end in found)
    assert all(1 < end.norm_constant <= REGULARIZER_CONSTANT for end in found)
    # Stationary, and no curvature is negative: differences of the gradient, within their error.
    w, h = ends[0].ravel(), 1e-5
    assert np.abs(value(jnp.asarray(w))[1]).max() < 1e-5
    columns = [
        value(jnp.asarray(w + h * e))[1] - value(jnp.asarray(w - h * e))[1] for e in np.eye(m * d)
    ]
    hessian = np.array(columns) / (2 * h)
    assert np.linalg.eigvalsh((hessian + hessian.T) / 2)[0] > -1e-6


def test_arguments_outside_the_theorem_are_named(small):
    net, params, x, y, _, W, _ = small(m=6)
    with pytest.raises(ValueError, match="`strength` must be a number >= 0, got strength=-1"):
        bai_lee2020.randomized_landscape(net, params, W, W, x, y, strength=-1, pairs=None)
    with pytest.raises(ValueError, match="`gamma` must be a positive number, got gamma=0"):
        bai_lee2020.stationary_risk(net, params, W, W, x, y, epsilon=0.1, gamma=0, pairs=None)
    with pytest.raises(ValueError, match="`W_star` must move a neuron"):
        bai_lee2020.stationary_risk(net, params, W, 0 * W, x, y, epsilon=0.1, gamma=1, pairs=None)
    with pytest.raises(ValueError, match="`W` must be finite"):
        bai_lee2020.randomized_landscape(net, params, jnp.nan * W, W, x, y, pairs=None)
