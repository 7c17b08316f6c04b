# SPDX-License-Identifier: Apache-2.0
import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import ResNet3, ResNet3Params
from unlazy.papers.allenzhu_li2019 import BiasedConcept, ResidualConcept, resnet_weights
from unlazy.papers.allenzhu_li_liang2019 import (
    hermite_indicator,
    indicator_error,
    indicator_function,
)
from unlazy.special import hermite

D, K, ALPHA = 6, 2, 0.3
WIDTHS = (1000, 4000, 16_000)


def concept(alpha=ALPHA):
    # RN-72's base functions; the composite is cubic.
    F = BiasedConcept.ridge(np.eye(2), [[0.2, 0.8, 0.5, -0.3], [0, -1, 0.4]], np.eye(D)[:2])
    G = BiasedConcept.ridge(np.eye(2), [[0, 0.6, 0.3, -0.4], [0.2, 0, 0.5, 0.3]], np.eye(2))
    return ResidualConcept(F, G, alpha)


def points(n=100, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, D))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def start(
    m, seed, power=-0.25, sigma_v: float | None = None
) -> tuple[ResNet3Params, dict[str, Any]]:
    rng = np.random.default_rng([m, seed])
    sigma_w, sigma_v = m**power, m**0.1 if sigma_v is None else sigma_v
    spread = sigma_v / math.sqrt(m)
    with jax.enable_x64(True):
        params = ResNet3Params(
            W=jnp.asarray(sigma_w * rng.standard_normal((m, D))),
            b1=jnp.asarray(sigma_w * rng.standard_normal(m)),
            V=jnp.asarray(spread * rng.standard_normal((m, K))),
            b2=jnp.asarray(spread * rng.standard_normal(m)),
            A=jnp.asarray(rng.standard_normal((K, m)) / math.sqrt(m)),
        )
    return params, {"sigma_w": sigma_w, "sigma_v": sigma_v}


@functools.cache
def fits(m, power=-0.25):
    x = points()
    found = []
    for seed in range(3):
        params, spreads = start(m, seed, power)
        found.append(resnet_weights(params, concept(), x, **spreads))
    return found


def rms(m, name, **options):
    return math.sqrt(np.mean([getattr(fit, name) ** 2 for fit in fits(m, **options)]))


def test_the_constant_of_the_indicator_is_exact_and_below_the_papers_bound():
    # RN-54: p'_i = (-1)^((i-1)/2) (i-2)!! / sqrt(2 pi) for He_i, whose norm is sqrt(i!).
    p = hermite_indicator(np.zeros(()), 9) * np.sqrt([math.factorial(i) for i in range(10)])
    odd = {1: 1, 3: 1, 5: 3, 7: 15, 9: 105}  # (i - 2)!!
    for i, product in odd.items():
        sign = (-1) ** ((i - 1) // 2)
        assert p[i] == pytest.approx(sign * product / math.sqrt(2 * math.pi), rel=1e-13)
    np.testing.assert_allclose(p[2::2], 0, atol=1e-16)
    assert p[0] == 0.5
    assert abs(p[3]) < 2 / 4  # (i-1)!!/4 of Claim E.3
    i = 2001
    squares = math.lgamma(i + 1) - 2 * _log_double(i - 2) + math.log(2 * math.pi)
    assert math.exp(squares) / i**1.5 == pytest.approx(2 * math.pi * math.sqrt(math.pi / 2), 1e-2)


def _log_double(n):
    """The logarithm of n!! for odd n."""
    return math.lgamma(n + 2) - math.lgamma((n + 1) / 2 + 1) - (n + 1) / 2 * math.log(2)


def test_indicators_without_a_bias_make_the_function():
    # RN-55: energies 7.336, 6.283 and 10.676; sin with 15 terms to 3e-15, clipped at 4 to 2.3e-4.
    x1 = np.linspace(-1, 1, 21)
    cases = [("sin", 15, 7.336), ("identity", 1, 6.283), ([0.5, 1, 0, -0.3], 3, 10.676)]
    for phi, degree, energy in cases:
        h = indicator_function(phi, method="centered", degree=degree)
        found = indicator_error(h, x1)
        assert found.max_error < 1e-13
        assert h.energy == pytest.approx(energy, abs=6e-4)
        assert found.energy == pytest.approx(h.energy, rel=1e-12)
        # RN-54: C* = 2 suffices in C_s; C* = 1 does not for phi = z.
        c = h.phi.taylor(degree)
        c_s = np.sum((np.arange(degree + 1) + 1) * np.abs(c))
        assert math.sqrt(h.energy) <= 2 * c_s
    sine = indicator_function("sin", method="centered", degree=15)
    assert indicator_error(sine.clipped(4.0), x1).max_error == pytest.approx(2.3e-4, rel=0.05)
    assert math.sqrt(indicator_function("identity", method="centered").energy) > 2


def test_a_mean_over_random_weights_is_the_function():
    # E[1{<w, x> >= 0} h(<w, w*>)], 4e5 draws: six standard errors, 1e-8 to fail.
    h = indicator_function("sin", method="centered", degree=7)
    rng, x1, n = np.random.default_rng(0), 0.6, 400_000
    a = rng.standard_normal(n)
    other = rng.standard_normal(n)
    values = (x1 * a + 0.8 * other >= 0) * h(a, np.zeros(n))
    assert abs(np.mean(values) - math.sin(x1)) < 6 * np.std(values) / math.sqrt(n)
    with pytest.raises(ValueError, match="`b` must be zero for method='centered'"):
        h(a, other)
    with pytest.raises(ValueError, match="constant and odd terms only for method='centered'"):
        indicator_function("exp", method="centered")
    np.testing.assert_array_equal(
        indicator_function("sin", method="centered", degree=4, truncation="tight").limits[1:],
        3 * np.sqrt([1, 2, 3, 4]),
    )
    assert hermite(np.zeros(()), 0)[0] == 1


@pytest.mark.slow
def test_linear_parts_approach_the_signals_like_the_root_of_the_width():
    # RN-72: F .128, .062, .025; alpha G .020 falling; exponent about -1/2 (three draws).
    base = [rms(m, "base_error") for m in WIDTHS]
    for found, recorded in zip(base, (0.128, 0.062, 0.025), strict=True):
        assert recorded / 2 < found < 2 * recorded
    slope = np.polyfit(np.log(WIDTHS), np.log(base), 1)[0]
    assert -0.75 < slope < -0.25
    composite = [rms(m, "composite_error") for m in WIDTHS]
    assert composite[-1] < 0.6 * composite[0] < 0.03


def test_norms_of_the_movements_tend_to_constants():
    # RN-72: |W*|_F = 3.6 to 3.9, |V*|_F about 1; RN-71: the limit from the energies.
    for fit in fits(16_000):
        assert 3.4 < fit.norms[0] < 4.2
        assert 0.8 < fit.norms[1] < 1.2
    F = concept().base
    hs = [indicator_function(phi, method="centered") for phi in F.functions]
    # Of either output the two terms have orthogonal w2, and E A_rj^2 = 1/m.
    limit = math.sqrt(sum(np.sum(F.a[:, i] ** 2) * h.energy for i, h in enumerate(hs)))
    mean = np.mean([fit.norms[0] for fit in fits(16_000)])
    assert mean == pytest.approx(limit, rel=0.03)


def test_the_network_itself_comes_near_the_target():
    # RN-72: .283, .226, .137 for m = 1e3, 4e3, 1.6e4; the initial output is a good part of it.
    full = [rms(m, "error") for m in WIDTHS]
    assert full[0] > full[1] > full[2]
    assert 0.08 < full[2] < 0.2
    assert rms(16_000, "start") > 0.4 * full[2]


@pytest.mark.slow
def test_a_smaller_start_flips_more_signs():
    # RN-72, m = 64000: m^-.25: error .087, start .077, 3.6% flipped; m^-.45: .207, .008, 23%.
    for power, error, initial, flipped in [
        (-0.25, 0.087, 0.077, 0.036),
        (-0.45, 0.207, 0.008, 0.23),
    ]:
        options = {"power": power}
        assert rms(64_000, "error", **options) == pytest.approx(error, rel=0.35)
        # The record is of the first layer; the second adds about sigma_v / sqrt(m).
        second = 64_000**0.1 / math.sqrt(64_000)
        found = rms(64_000, "start", **options)
        assert 0.65 * initial < found < 1.35 * math.hypot(initial, second)
        assert rms(64_000, "flipped", **options) == pytest.approx(flipped, rel=0.15)


def test_outputs_are_those_of_the_moved_network():
    params, spreads = start(300, 0)
    x = points(7)
    fit = resnet_weights(params, concept(), x, truncation="tight", **spreads)
    with jax.enable_x64(True):
        moved = jax.tree.map(jnp.add, params, fit.dparams)
        outputs = ResNet3(D, 300, K)(moved, jnp.asarray(x))
    np.testing.assert_allclose(fit.outputs, outputs, atol=1e-13)
    without = resnet_weights(params, concept(), **spreads)
    assert without.outputs.shape == (0, K)
    assert math.isnan(without.error)


@pytest.mark.slow
def test_descent_makes_progress_up_to_an_error_term():
    # RN-58: <grad, theta - theta*> = <y - out, H - out + Err> with the f + g of RN-27 on the right,
    # hence at least |H - out|^2/2 - 2 |Err|^2; y = H, at the point (.7 W*, .5 V*).
    m = 2000
    params, spreads = start(m, 0, power=-0.45, sigma_v=2.0)
    x, goal = points(10), concept()
    y = goal(x)
    star = resnet_weights(params, goal, **spreads).dparams
    with jax.enable_x64(True):
        net, xs, ys = ResNet3(D, m, K), jnp.asarray(x), jnp.asarray(y)
        here = eqx.tree_at(
            lambda p: (p.W, p.b1, p.V, p.b2),
            star,
            (0.7 * star.W, 0.7 * star.b1, 0.5 * star.V, 0.5 * star.b2),
        )
        point = jax.tree.map(jnp.add, params, here)
        to_star = jax.tree.map(lambda s, h: s - h, star, here)

        def loss(p, i):
            return 0.5 * jnp.sum((net(p, xs[i][None]) - ys[i][None]) ** 2)

        grads = jax.vmap(jax.grad(loss), (None, 0))(point, jnp.arange(len(x)))
        inner = [
            jnp.einsum("n...,...->n", g, step)
            for g, step in zip(jax.tree.leaves(grads), jax.tree.leaves(to_star), strict=True)
        ]
        out = net(point, xs)
        left = -np.asarray(sum(inner))  # <grad, theta - theta*>
        f_plus_g = _directional(point, to_star, x)
    out = np.asarray(out)
    np.testing.assert_allclose(left, np.sum((y - out) * f_plus_g, axis=1), atol=1e-12)
    remainder = f_plus_g - (y - out)
    slack = left - np.sum((y - out) ** 2, 1) / 2 + 2 * np.sum(remainder**2, 1)
    assert np.all(slack > 0)


def _directional(point, step, x):
    """RN-27: f = M t, t = A D W' xa, g = A D V' z, written out."""
    A = np.asarray(point.A)
    first = x @ np.asarray(point.W).T + np.asarray(point.b1)
    out1 = np.maximum(first, 0) @ A.T
    second = out1 @ np.asarray(point.V).T + np.asarray(point.b2)
    moved = x @ np.asarray(step.W).T + np.asarray(step.b1)
    t = ((first > 0) * moved) @ A.T
    g = ((second > 0) * (out1 @ np.asarray(step.V).T + np.asarray(step.b2))) @ A.T
    back = ((second > 0) * (t @ np.asarray(point.V).T)) @ A.T
    return t + back + g


def test_bad_arguments_are_refused(no_shape_checker):
    params, spreads = start(20, 0)
    signal = BiasedConcept.ridge(np.eye(2), [[0, 1]] * 2, np.eye(2))
    other = ResidualConcept(signal, signal, 0.1)
    with pytest.raises(ValueError, match="bottleneck network with 2 inputs and 2 outputs"):
        resnet_weights(params, other, **spreads)
    general = ResNet3(2, 2, 2, form="general").init(key=jr.key(0))  # V has the shape, m = k
    with pytest.raises(ValueError, match=r"bottleneck network.*last_is_shared=False"):
        resnet_weights(general, other, **spreads)
    with pytest.raises(ValueError, match="`sigma_w` must be a positive number"):
        resnet_weights(params, concept(), sigma_w=0, sigma_v=1.0)
    with jax.enable_x64(True):
        broken = eqx.tree_at(lambda p: p.b1, params, params.b1.at[3].set(jnp.nan))
    with pytest.raises(ValueError, match=r"`params0.b1` must be finite"):
        resnet_weights(broken, concept(), **spreads)
