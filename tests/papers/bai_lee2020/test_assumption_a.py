# SPDX-License-Identifier: Apache-2.0
import itertools
import math
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020 import (
    Smoothness,
    coupling_bound,
    quadratic_gap,
    smoothness,
    term_bounds,
)

CUBE = ul.activation("rectified_power", power=3)
FOURTH = ul.activation("rectified_power", power=4)


def problem(sigma, *, m=6, d=3, n=5, size=0.4):
    rng = np.random.default_rng(7)
    net = TwoLayer(d, m, sigma, init="symmetric")
    x = rng.standard_normal((n, d))
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    return net, net.init(key=jr.key(3)), size * rng.standard_normal((m, d)), x


def parts(net, params, W, x, function, slope, curvature):
    """f, f^L and f^Q at each of the 2^m sign vectors, by the formulas, in NumPy."""
    a, W0 = (np.asarray(v, np.float64) for v in (params.a, params.W))
    Z0, root, rows = x @ W0.T, math.sqrt(net.width), []
    for s in itertools.product((1.0, -1.0), repeat=net.width):
        Z = x @ (np.array(s)[:, None] * W).T
        terms = (function(Z0 + Z), slope(Z0) * Z, curvature(Z0) * Z**2 / 2)
        rows.append([term @ a / root for term in terms])
    return np.array(rows).transpose(1, 0, 2)


def test_the_papers_cube_has_six_times_the_constants_of_relu3(x64):
    C1, C2, C3 = smoothness(CUBE)
    t = jnp.linspace(0.0, 3.0, 31)
    np.testing.assert_allclose(CUBE.derivative(1)(t), C1 * t**2, atol=1e-13)
    np.testing.assert_allclose(CUBE.derivative(2)(t), C2 * t, atol=1e-13)
    np.testing.assert_allclose(CUBE.derivative(3)(t), C3, atol=1e-13)
    assert np.array(smoothness(CUBE)) == pytest.approx(6 * np.array(smoothness(_relu3())))


def _relu3(shift=0.0):
    return ul.activation("relu3", shift=shift)


@pytest.mark.parametrize("name", ["relu3", "rectified_power"])
def test_a_shift_to_the_right_keeps_the_constants_and_one_to_the_left_has_none(name, x64):
    options: dict[str, Any] = {"power": 3} if name == "rectified_power" else {}
    sigma = ul.activation(name, shift=0.7, **options)
    C1, C2, _ = smoothness(sigma)
    t = jnp.linspace(-3.0, 9.0, 241)
    assert bool(jnp.all(jnp.abs(sigma.derivative(1)(t)) <= C1 * t**2))
    assert bool(jnp.all(jnp.abs(sigma.derivative(2)(t)) <= C2 * jnp.abs(t)))
    with pytest.raises(ValueError, match="`activation` must vanish to third order at 0"):
        smoothness(ul.activation(name, shift=-0.1, **options))


def test_bounds_hold_for_the_papers_cube_and_scale_from_relu3():
    net, params, W, x = problem(CUBE)
    f, f_L, f_Q = parts(
        *(net, params, W, x),
        lambda t: np.maximum(t, 0) ** 3,
        lambda t: 3 * np.maximum(t, 0) ** 2,
        lambda t: 6 * np.maximum(t, 0),
    )
    bounds = term_bounds(net, params, W, x)
    assert np.all(np.abs(f_Q[0]) <= bounds.quadratic)
    assert np.all((f_L**2).mean(axis=0) <= bounds.linear_variance)
    assert np.all(np.abs(f - f_L - f_Q).max(axis=0) <= bounds.remainder)
    small = term_bounds(TwoLayer(3, 6, "relu3", init="symmetric"), params, W, x)
    for cube, relu3, factor in zip(bounds, small, (6, 36, 6), strict=True):
        np.testing.assert_allclose(cube, factor * relu3, rtol=1e-12)


def test_supplied_constants_bound_a_power_that_has_none_on_the_whole_line():
    """t_+^4 on |t| <= T: |s'| = 4 t^3 <= 4T t^2, |s''| <= 12T |t| and |s'''| <= 24T."""
    net, params, W, x = problem(FOURTH)
    with pytest.raises(ValueError, match="or pass `constants` that hold where the network"):
        term_bounds(net, params, W, x)
    top = np.abs(x @ np.asarray(params.W, np.float64).T)
    T = float((top + np.abs(x @ W.T)).max())
    constants = Smoothness(4 * T, 12 * T, 24 * T)
    f, f_L, f_Q = parts(
        *(net, params, W, x),
        lambda t: np.maximum(t, 0) ** 4,
        lambda t: 4 * np.maximum(t, 0) ** 3,
        lambda t: 12 * np.maximum(t, 0) ** 2,
    )
    bounds = term_bounds(net, params, W, x, constants=constants)
    ratios = (
        np.abs(f_Q[0]) / bounds.quadratic,
        (f_L**2).mean(axis=0) / bounds.linear_variance,
        np.abs(f - f_L - f_Q).max(axis=0) / bounds.remainder,
    )
    assert all(0 < ratio.max() <= 1 for ratio in ratios)
    y = np.sign(np.arange(5) - 1.5)
    distance = abs(np.log1p(np.exp(-y * f)).mean() - np.log1p(np.exp(-y * f_Q[0])).mean())
    assert 0 < distance <= coupling_bound(net, params, W, x, constants=constants)


@pytest.mark.parametrize(("place", "name"), [(0, "C1"), (1, "C2"), (2, "C3")])
def test_constants_that_the_preactivations_refute_are_refused(place, name):
    net, params, W, x = problem(_relu3())
    constants = np.array(smoothness(net.activation))
    exact = term_bounds(net, params, W, x, constants=tuple(constants.tolist()))
    for given, own in zip(exact, term_bounds(net, params, W, x), strict=True):
        np.testing.assert_array_equal(given, own)
    constants[place] *= 0.2
    match = f"`constants` must have {name} of at least .*, got {name}="
    with pytest.raises(ValueError, match=match):
        term_bounds(net, params, W, x, constants=tuple(constants.tolist()))


def test_a_slope_at_zero_refutes_every_constant_and_a_negative_one_is_refused():
    net, params, W, x = problem(ul.activation("tanh"))
    orthogonal = np.linalg.svd(np.asarray(params.W[:2], np.float64))[2][2:]  # to two neurons
    with pytest.raises(ValueError, match="`constants` must have C1 of at least"):
        term_bounds(net, params, W, orthogonal, constants=(1e6, 1e6, 1e6))
    with pytest.raises(ValueError, match="none of them negative"):
        term_bounds(net, params, W, x, constants=(1.0, -1.0, 1.0))


def test_the_gap_of_theorem_6_takes_any_activation_with_its_constants():
    _, params, _, x = problem(CUBE, m=8)
    small = quadratic_gap(params, x, norm=0.5)
    cube = quadratic_gap(params, x, norm=0.5, activation=CUBE)
    assert cube.main == pytest.approx(6 * small.main, rel=1e-12)
    # A movement of norm B has neurons that move by at most B.
    T = float(np.abs(x @ np.asarray(params.W, np.float64).T).max()) + 0.5
    fourth = quadratic_gap(
        params, x, norm=0.5, activation=FOURTH, constants=(4 * T, 12 * T, 24 * T)
    )
    Z0 = x @ np.asarray(params.W, np.float64).T
    ratio = 12 * np.max(np.maximum(Z0, 0)) ** 2 / np.max(np.maximum(Z0, 0))
    assert fourth.main == pytest.approx(ratio * small.main, rel=1e-12)
    delta = 24 * T / 6 * 0.5**3 * 8**-0.25
    linear = (4 * T) ** 2 * np.abs(Z0).max(axis=1) ** 4 * 0.5**2 / math.sqrt(8)
    assert fourth.coupling == pytest.approx(2 * (delta + delta**2 + linear.mean()), rel=1e-12)
    with pytest.raises(ValueError, match="`constants` must have C3 of at least"):
        quadratic_gap(params, x, norm=9.0, activation=FOURTH, constants=(4 * T, 12 * T, 24 * T))
