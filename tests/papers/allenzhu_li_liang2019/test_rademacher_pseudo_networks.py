# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import BiasedTwoLayerParams, ThreeLayerParams
from unlazy.papers.allenzhu_li_liang2019 import (
    generalization_gap,
    rademacher_pseudo_three_layer,
    rademacher_pseudo_three_layer_supremum,
    rademacher_pseudo_two_layer,
    rademacher_pseudo_two_layer_supremum,
    rademacher_rate,
    rademacher_relu_layer,
)


def unit(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def two_layer(m, d, seed=1):
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        W, b = rng.standard_normal((m, d)) / m**0.5, rng.standard_normal(m) / m**0.5
        a = rng.standard_normal(m)
        return BiasedTwoLayerParams(jnp.asarray(W), jnp.asarray(b), jnp.asarray(a))


def three_layer(m1, m2, d, seed=1):
    rng = np.random.default_rng(seed)
    with jax.enable_x64(True):
        parts = [
            rng.standard_normal((m1, d)) / m1**0.5,
            rng.standard_normal(m1) / m1**0.5,
            rng.standard_normal((m2, m1)) / m2**0.5,
            rng.standard_normal(m2) / m2**0.5,
            rng.standard_normal(m2),
        ]
        return ThreeLayerParams(*(jnp.asarray(part) for part in parts))


def masks(params, x):
    W, b1, V, b2 = (np.asarray(p) for p in (params.W, params.b1, params.V, params.b2))
    first = x @ W.T + b1
    return first >= 0, np.maximum(first, 0) @ V.T + b2 >= 0


def pseudo(params, x, dW, dV):
    """g^(b,b), neuron by neuron."""
    Dw, Dv = masks(params, x)
    return (Dv * ((Dw * (x @ dW.T)) @ dV.T)) @ np.asarray(params.a)


def test_the_two_layer_supremum_is_attained_and_not_exceeded():
    x, params = unit(30, 4), two_layer(25, 4)
    rng = np.random.default_rng(2)
    xi = rng.choice([-1.0, 1.0], 30)
    best = rademacher_pseudo_two_layer_supremum(params, x, xi, tau=0.3)
    D = x @ np.asarray(params.W).T + np.asarray(params.b) >= 0

    def correlation(dW):
        return xi @ ((D * (x @ dW.T)) @ np.asarray(params.a)) / 30

    dW = np.asarray(best.dW)
    assert np.linalg.norm(dW, axis=1).max() <= 0.3 * (1 + 1e-12)
    assert correlation(dW) == pytest.approx(best.value, rel=1e-12)
    others = [rng.standard_normal(dW.shape) for _ in range(200)]
    others = [0.3 * w / np.linalg.norm(w, axis=1, keepdims=True) for w in others]
    assert max(correlation(w) for w in others) < best.value


def test_the_three_layer_supremum_is_attained():
    # LG-39: N = 40, m1 = 30, m2 = 20, d = 3.
    x, params = unit(40, 3), three_layer(30, 20, 3)
    xi = np.random.default_rng(3).choice([-1.0, 1.0], 40)
    best = rademacher_pseudo_three_layer_supremum(params, x, xi, tau_w=0.7, tau_v=1.3)
    dW, dV = np.asarray(best.dW), np.asarray(best.dV)
    assert np.sum(np.sum(dW**2, axis=1) ** 2) ** 0.25 == pytest.approx(0.7, rel=1e-12)
    assert np.linalg.norm(dV) == pytest.approx(1.3, rel=1e-12)
    assert xi @ pseudo(params, x, dW, dV) / 40 == pytest.approx(best.value, rel=1e-12)


def test_alternating_maximisation_ends_at_the_three_layer_supremum():
    # LG-39: an independent route to the supremum; each half step is in closed form. The objective
    # has stationary points below it, so the best of 40 starts is taken.
    x, params = unit(40, 3), three_layer(30, 20, 3)
    rng = np.random.default_rng(3)
    xi = rng.choice([-1.0, 1.0], 40)
    Dw, Dv = masks(params, x)
    # M_q (d, m2) formed here, where the library does not.
    M = np.einsum("j,jq,jd,ji->qdi", xi, Dw, x, Dv * np.asarray(params.a)) / 40
    best = 0.0
    for _ in range(40):
        V, grad_V = rng.standard_normal((20, 30)), np.zeros((20, 30))
        for _ in range(300):
            grad_W = np.einsum("qdi,iq->qd", M, V)
            # The largest <G, W> over the 2,4 ball: row lengths to the power 1/3.
            size = np.linalg.norm(grad_W, axis=1, keepdims=True)
            W = grad_W / np.where(size > 0, size, 1.0) ** (2 / 3)
            W /= np.sum(np.sum(W**2, axis=1) ** 2) ** 0.25
            grad_V = np.einsum("qdi,qd->iq", M, W)
            V = grad_V / np.linalg.norm(grad_V)
        best = max(best, float(np.sum(grad_V * V)))
    exact = rademacher_pseudo_three_layer_supremum(params, x, xi, tau_w=1.0, tau_v=1.0).value
    assert best <= exact * (1 + 1e-12)
    assert best == pytest.approx(exact, rel=1e-8)


@pytest.mark.parametrize(("n", "m"), [(50, 32), (200, 32), (50, 128), (200, 128)])
def test_three_layer_complexity_follows_its_rate(n, m):
    # LG-39: .53, .35, .40, .43 of m1^(1/4) sqrt(m2/N); assert [0.2, 1].
    x, params = unit(n, 3), three_layer(m, m, 3)
    exact = rademacher_pseudo_three_layer(
        params, x, tau_w=1.0, tau_v=1.0, draws=10, key=jax.random.key(0)
    )
    rate = rademacher_rate("6.12", n=n, m1=m, m2=m, tau_w=1.0, tau_v=1.0)
    assert rate == pytest.approx(m**0.25 * math.sqrt(m / n))
    assert 0.2 < exact.value / rate < 1
    assert exact.standard_error < 0.2 * exact.value


@pytest.mark.parametrize(
    ("n", "m", "ratio"), [(100, 200, 0.48), (400, 200, 0.54), (100, 800, 0.42)]
)
def test_two_layer_complexity_follows_its_rate(n, m, ratio):
    # LG-39: .48, .54, .42 of m/sqrt N, on one draw of the network each.
    exact = rademacher_pseudo_two_layer(
        two_layer(m, 3), unit(n, 3), tau=1.0, draws=20, key=jax.random.key(0)
    )
    found = exact.value / rademacher_rate("B.5", n=n, m=m, tau=1.0, eps_a=1.0)
    assert 0.2 < found < 1
    assert found == pytest.approx(ratio, rel=0.35)


def test_the_complexity_is_the_mean_of_suprema():
    x, params, key = unit(20, 3), three_layer(12, 9, 3), jax.random.key(5)
    sizes = {"tau_w": 0.5, "tau_v": 2.0}
    found = rademacher_pseudo_three_layer(params, x, draws=6, key=key, **sizes)
    signs = np.asarray(jax.random.rademacher(key, (6, 20), dtype=jnp.int8), np.float64)
    values = [rademacher_pseudo_three_layer_supremum(params, x, xi, **sizes).value for xi in signs]
    assert found.value == pytest.approx(np.mean(values), rel=1e-12)
    zero = rademacher_pseudo_three_layer_supremum(params, x, np.zeros(20), **sizes)
    assert zero.value == 0.0
    assert not np.asarray(zero.dV).any()


def test_rates_are_their_formulas():
    # LG-19, written out a second time.
    n, m1, m2, w, v = 900, 64, 81, 0.02, 0.3
    sizes = {"m1": m1, "m2": m2, "tau_w": w, "tau_v": v}
    one = rademacher_rate("6.10", n=n, **sizes)
    expected = (w * m1 * 9 + v * m2) / 30 + v * math.sqrt(m1 * m2 * w * (1 / 8 + w)) / 30**0.5
    assert one == pytest.approx(expected, rel=1e-12)
    two = rademacher_rate("6.12", n=n, **sizes)
    bracket = w ** (8 / 5) * m1 ** (9 / 10) + w ** (16 / 5) * m1 ** (9 / 5) * 9 + v * 9 / 8
    assert rademacher_rate("6.12 coupling", **sizes) == pytest.approx(bracket, rel=1e-12)
    assert two == pytest.approx(w * v * m1**0.25 * 9 / 30, rel=1e-12)
    l1 = rademacher_rate("A.12(b)", n=n, B=2.0, d=50)
    assert l1 == pytest.approx(2 * math.sqrt(math.log(50) / n))
    assert rademacher_relu_layer([0.1, 0.3], free=(2.0, 0.5, 1.0), n=n) == pytest.approx(
        2 * 0.5 * 0.4 + 2 * math.sqrt(math.log(2) / n)
    )


def test_the_fixed_layer_rule_bounds_a_layer_of_linear_functions():
    # LG-19 (e) for sum_j w_j relu(<v_j, x>), ||v_j|| <= 1. The supremum decouples over j, and is
    # searched over 500 directions: a lower bound, which the rule must lie above.
    x, w = unit(50, 3), np.array([0.5, -1.0, 0.25])
    features = np.maximum(x @ unit(500, 3, seed=9).T, 0)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (200, 50))
    scores = signs @ features / 50
    best = np.maximum((np.sign(w)[:, None, None] * scores).max(axis=2), 0)  # v_j = 0 gives 0
    single = rademacher_rate("A.12(a)", n=50, B=1.0)
    rule = rademacher_relu_layer([single] * 3, l1_norm=float(np.abs(w).sum()))
    assert 0.1 * rule < np.mean(np.abs(w) @ best) <= rule


def test_the_gap_falls_like_the_root_of_the_samples():
    small, large = (generalization_gap(0.0, n, delta=0.05) for n in (100, 400))
    assert small / large == pytest.approx(2.0)
    assert generalization_gap(0.25, 100, delta=0.05) - small == pytest.approx(0.5)


def test_bad_classes_are_refused(no_shape_checker):
    x, params = unit(10, 3), three_layer(6, 5, 3)
    with pytest.raises(ValueError, match=r"`signs` must have shape \(10,\)"):
        rademacher_pseudo_three_layer_supremum(params, x, np.ones(9), tau_w=1.0, tau_v=1.0)
    with pytest.raises(ValueError, match="`tau_v` must be a positive number"):
        rademacher_pseudo_three_layer_supremum(params, x, np.ones(10), tau_w=1.0, tau_v=0.0)
    with pytest.raises(ValueError, match="one column for each of x"):
        rademacher_pseudo_two_layer_supremum(two_layer(5, 4), x, np.ones(10), tau=1.0)
    many = two_layer(5, 3)
    many = BiasedTwoLayerParams(many.W, many.b, jnp.ones((2, 5)))
    with pytest.raises(ValueError, match="`params0` must have one output"):
        rademacher_pseudo_two_layer_supremum(many, x, np.ones(10), tau=1.0)
    with pytest.raises(ValueError, match=r"`statement` must be a known name, got .*'6\.11'"):
        rademacher_rate("6.11", n=10, m1=2, m2=2, tau_w=1.0, tau_v=1.0)
    with pytest.raises(ValueError, match=r"`numbers` must be n, B, d for .*'A.12\(b\)', got n, B"):
        rademacher_rate("A.12(b)", n=10, B=1.0)
    with pytest.raises(ValueError, match="`d` must be an integer"):
        rademacher_rate("A.12(b)", n=10, B=1.0, d=2.5)
    with pytest.raises(ValueError, match="`l1_norm` must be given, or else"):
        rademacher_relu_layer([0.1])


def test_numbers_out_of_range_are_refused(no_shape_checker):
    for value in (-5.0, math.nan, math.inf):
        with pytest.raises(ValueError, match="`rademacher` must be a number >= 0"):
            generalization_gap(value, 100, delta=0.1)
        with pytest.raises(ValueError, match="`rates` must be a number >= 0"):
            rademacher_relu_layer([0.1, value], l1_norm=3.0)
        with pytest.raises(ValueError, match="`l1_norm` must be a number >= 0"):
            rademacher_relu_layer([0.1], l1_norm=value)
        with pytest.raises(ValueError, match="`free` must be a number >= 0"):
            rademacher_relu_layer([0.1], free=(1.0, value, 1.0), n=10)
    wrong: Any = (1, 2)
    with pytest.raises(ValueError, match=r"`free` must be three numbers, \(B, D, R\), got"):
        rademacher_relu_layer([0.1], free=wrong, n=10)
    for wrong in (100.0, (2, 2)):
        with pytest.raises(ValueError, match="`m1` must be an integer >= 1, got"):
            rademacher_rate("6.12", n=10, m1=wrong, m2=2, tau_w=1.0, tau_v=1.0)
    with pytest.raises(ValueError, match="`tau_v` must be a positive number"):
        rademacher_rate("6.10", n=10, m1=2, m2=2, tau_w=1.0, tau_v=0.0)
    assert rademacher_relu_layer([0.0], l1_norm=0) == 0.0  # a single function


def test_parameters_of_another_kind_are_named(no_shape_checker):
    x, xi, key = unit(10, 3), np.ones(10), jax.random.key(0)
    two: Any = two_layer(5, 3)
    three: Any = three_layer(6, 5, 3)
    match = "`params0` must be a ThreeLayerParams, got BiasedTwoLayerParams"
    sizes: Any = {"tau_w": 1.0, "tau_v": 1.0}
    with pytest.raises(TypeError, match=match):
        rademacher_pseudo_three_layer(two, x, key=key, **sizes)
    with pytest.raises(TypeError, match=match):
        rademacher_pseudo_three_layer_supremum(two, x, xi, **sizes)
    match = "`params0` must be a BiasedTwoLayerParams, got ThreeLayerParams"
    with pytest.raises(TypeError, match=match):
        rademacher_pseudo_two_layer(three, x, tau=1.0, key=key)
    with pytest.raises(TypeError, match=match):
        rademacher_pseudo_two_layer_supremum(three, x, xi, tau=1.0)
