# SPDX-License-Identifier: Apache-2.0
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unlazy as ul
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020 import (
    coupling_orders,
    landscape_theory,
    landscape_width,
    quadratic_gap,
    quadratic_sample_size,
    rademacher_operator_bound,
    rademacher_quadratic,
    rademacher_quadratic_supremum,
    ridge_norm_bound,
    sample_sizes,
    second_moment_norm,
)
from unlazy.papers.bai_lee2020.generalization import isotropic_second_moment_norm


def problem(n, d, m, seed=0):
    net = TwoLayer(d, m, "relu3", "symmetric")
    x = ul.data.sphere(n, d, key=jax.random.key(1000 + seed))
    return net.init(key=jax.random.key(seed)), np.asarray(x, np.float64)


def correlation(params, W, x, signs):
    """The mean of signs times f_Q, by its definition."""
    W0, a = np.asarray(params.W, np.float64), np.asarray(params.a, np.float64)
    f_Q = (np.maximum(x @ W0.T, 0) * (x @ W.T) ** 2) @ a / (2 * math.sqrt(len(a)))
    return np.mean(signs * f_Q)


def on_ball(W, B):
    return W * B / np.sum(np.sum(W**2, axis=1) ** 2) ** 0.25


def test_the_supremum_is_attained_and_no_random_movement_reaches_it():
    # BL-T21, n = 40, d = 5, m = 60, B = 1.7: there .13946992 on both sides and .0215 at random.
    params, x = problem(40, 5, 60)
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], 40)
    best = rademacher_quadratic_supremum(params, x, signs, norm=1.7)
    W = np.asarray(best.dW)
    assert correlation(params, W, x, signs) == pytest.approx(best.value, rel=1e-11)
    assert np.sum(np.sum(W**2, axis=1) ** 2) ** 0.25 == pytest.approx(1.7, rel=1e-12)
    draws = [on_ball(rng.standard_normal((60, 5)), 1.7) for _ in range(500)]
    assert max(correlation(params, V, x, signs) for V in draws) < best.value / 3
    # A maximum: every small step along the sphere of the ball goes down.
    for V in draws[:50]:
        near = on_ball(W + 1e-3 * V, 1.7)
        assert correlation(params, near, x, signs) <= best.value * (1 + 1e-12)


def test_the_supremum_takes_any_output_weights_and_activation():
    # No twins, weights of any size, tanh: against the definition with the maximiser.
    rng = np.random.default_rng(1)
    params = TwoLayerParams(
        W=jnp.asarray(rng.standard_normal((7, 3)), jnp.float32),
        a=jnp.asarray(rng.standard_normal(7), jnp.float32),
    )
    x, signs = rng.standard_normal((9, 3)), rng.standard_normal(9)
    best = rademacher_quadratic_supremum(params, x, signs, norm=2, activation="tanh")
    W0, a, W = (np.asarray(v, np.float64) for v in (params.W, params.a, best.dW))
    with jax.enable_x64(True):
        second = np.asarray(ul.activation("tanh").derivative(2)(jnp.asarray(x @ W0.T)))
    f_Q = (second * (x @ W.T) ** 2) @ a / (2 * math.sqrt(7))
    assert np.mean(signs * f_Q) == pytest.approx(best.value, rel=1e-10)


def test_the_complexity_is_the_mean_over_all_signs():
    # All 2^6 sign vectors against 400 draws: 5 standard errors, failure below 1e-6.
    params, x = problem(6, 3, 8)
    exact = np.mean([
        rademacher_quadratic_supremum(params, x, np.array(signs), norm=1.3).value
        for signs in itertools.product([-1.0, 1.0], repeat=6)
    ])  # fmt: skip
    chain = rademacher_quadratic(params, x, norm=1.3, draws=400, key=jax.random.key(0))
    assert chain.exact.value == pytest.approx(exact, abs=5 * chain.exact.standard_error)
    assert chain.exact.standard_error < 0.05 * exact


# BL-T22: n, d, BL-18, B^2/2 E max op, Lemma 5 main, Lemma 8, M_x.
CHAIN = [
    (100, 10, 0.0198, 0.0471, 0.1885, 0.717, 0.395),
    (400, 10, 0.0093, 0.0215, 0.0860, 0.316, 0.356),
    (400, 40, 0.0062, 0.0099, 0.0398, 0.182, 0.205),
]


@pytest.mark.parametrize(("n", "d", "exact", "sharp", "main", "lemma8", "moment"), CHAIN)
def test_the_chain_of_bounds_is_that_of_the_table(n, d, exact, sharp, main, lemma8, moment):
    # m = 100, B = B_x = 1, 10 draws. Another start and other signs: within 15%, M within 3%.
    params, x = problem(n, d, 100)
    chain = rademacher_quadratic(params, x, norm=1.0, draws=10, key=jax.random.key(3))
    bound = rademacher_operator_bound(params, x)
    np.testing.assert_allclose(
        [chain.exact.value, chain.sharp, chain.paper_main, bound],
        [exact, sharp, main, lemma8],
        rtol=0.15,
    )
    assert second_moment_norm(x) == pytest.approx(moment, rel=0.03)
    assert isotropic_second_moment_norm(n, d) == pytest.approx(
        {(100, 10): 0.416, (400, 10): 0.366, (400, 40): 0.208}[n, d], abs=6e-4
    )
    # Deterministic: each step of the chain.
    assert chain.exact.value <= chain.sharp <= chain.paper_main <= chain.paper
    assert chain.operator_norm.value <= bound
    assert chain.paper == pytest.approx(chain.paper_main + n**-0.5, rel=1e-12)


def test_the_operator_bound_is_lemma_8_with_explicit_matrices():
    params, x = problem(12, 3, 10)
    W0 = np.asarray(params.W, np.float64)
    A = np.einsum("ir,ia,ib->riab", np.maximum(x @ W0.T, 0), x, x) / 12
    squares = np.einsum("riab,ribc->rac", A, A)
    largest = max(np.linalg.norm(S, 2) for S in squares)
    expected = 4 * math.sqrt(largest * math.log(2 * 10 * 3))
    assert rademacher_operator_bound(params, x) == pytest.approx(expected, rel=1e-11)


def test_blocks_of_neurons_give_the_same_numbers(monkeypatch):
    params, x = problem(20, 4, 30)
    signs = np.resize([1.0, -1.0, 1.0], 20)
    whole = rademacher_quadratic_supremum(params, x, signs, norm=1.0)
    monkeypatch.setattr("unlazy.papers.bai_lee2020.quadratic_class._ENTRIES", 4 * 20 * 4)
    parts = rademacher_quadratic_supremum(params, x, signs, norm=1.0)
    assert parts.value == pytest.approx(whole.value, rel=1e-13)
    np.testing.assert_allclose(np.asarray(parts.dW), np.asarray(whole.dW), atol=1e-9)


@pytest.mark.slow
def test_the_complexity_scales_with_the_norm_and_falls_with_the_samples():
    params, x = problem(60, 4, 20)
    key = jax.random.key(0)
    one, three = (rademacher_quadratic(params, x, norm=B, draws=5, key=key) for B in (1, 3))
    assert three.exact.value == pytest.approx(9 * one.exact.value, rel=1e-12)
    sizes, values = [50, 150, 450, 1350], []
    for n in sizes:
        params, x = problem(n, 4, 20)
        values.append(rademacher_quadratic(params, x, norm=1.0, draws=30, key=key).exact.value)
    (slope, _), covariance = np.polyfit(np.log(sizes), np.log(values), 1, cov=True)
    assert slope == pytest.approx(-0.5, abs=0.08)
    assert math.sqrt(covariance[0, 0]) < 0.04


def test_the_second_moment_norm_is_that_of_the_definition_on_both_shapes():
    rng = np.random.default_rng(0)
    for n, d in [(30, 4), (4, 30), (1, 5)]:
        x = rng.standard_normal((n, d))
        x *= 3e100 / np.linalg.norm(x, axis=1, keepdims=True)  # its fourth power overflows
        unit = x / 3e100
        expected = math.sqrt(np.linalg.norm(unit.T @ unit / n, 2))
        assert second_moment_norm(x) == pytest.approx(expected, rel=1e-12)
        assert 1 / math.sqrt(d) - 1e-12 <= second_moment_norm(x) <= 1 + 1e-12
    assert second_moment_norm(np.eye(9)) == pytest.approx(1 / 3, rel=1e-15)
    assert second_moment_norm(np.ones((5, 3))) == pytest.approx(1, rel=1e-15)  # a mean breaks it


def test_the_second_moment_norm_of_the_cube_and_of_anisotropic_data():
    # BL-T22: hypercube d = 20, n = 400: .265. BL-T23: kappa 1.5 .. 27.8 give M below sqrt(kappa/d).
    x = ul.data.cube(400, 20, key=jax.random.key(0))
    assert second_moment_norm(x) == pytest.approx(0.265, rel=0.05)
    # Which data those were is not said; one axis stretched by 1, 2, 4, 8, n = 2000, has them.
    rng, kappas, norms = np.random.default_rng(0), [], []
    for stretch in (1, 2, 4, 8):
        g = rng.standard_normal((2000, 20)) * np.r_[stretch, np.ones(19)]
        x = g / np.linalg.norm(g, axis=1, keepdims=True)
        eigen = np.linalg.eigvalsh(x.T @ x / len(x))
        kappas.append(eigen[-1] / eigen[0])
        norms.append(second_moment_norm(x))
    np.testing.assert_allclose(kappas, [1.5, 4.0, 10.8, 27.8], rtol=0.1)
    np.testing.assert_allclose(norms, [0.245, 0.386, 0.571, 0.736], rtol=0.03)
    assert (norms <= np.sqrt(np.array(kappas) / 20)).all()


def test_the_gap_bounds_the_complexity_of_the_class():
    # Theorem 6's main term is at least twice the exact complexity of the quadratic class.
    params, x = problem(100, 5, 200)
    gap = quadratic_gap(params, x, norm=1.5)
    chain = rademacher_quadratic(params, x, norm=1.5, draws=5, key=jax.random.key(0))
    assert 2 * chain.exact.value <= gap.main
    assert gap.offset == pytest.approx(0.2)
    assert gap.sum() == pytest.approx(gap.main + gap.offset + gap.coupling)
    Z0 = x @ np.asarray(params.W, np.float64).T
    expected = 16 * 1.5**2 * second_moment_norm(x) * Z0.max() * math.sqrt(math.log(2000) / 100)
    assert gap.main == pytest.approx(expected, rel=1e-6)


def test_the_coupling_of_the_gap_holds_for_random_movements_and_signs():
    # |L - L^Q| for all movements in the ball, pseudo-Huber loss: all signs of m = 8 neurons.
    params, x = problem(10, 3, 8)
    W0, a = np.asarray(params.W, np.float64), np.asarray(params.a, np.float64)
    rng = np.random.default_rng(0)
    y, signs = rng.standard_normal(10), np.array(list(itertools.product([-1, 1], repeat=8)))
    bound = quadratic_gap(params, x, norm=0.8).coupling / 2
    ratios = []
    for _ in range(20):
        W = on_ball(rng.standard_normal((8, 3)), 0.8)
        moved = W0 + signs[:, :, None] * W
        f = np.maximum(np.einsum("nd,smd->snm", x, moved), 0) ** 3 / 6 @ a / math.sqrt(8)
        f_Q = (np.maximum(x @ W0.T, 0) * (x @ W.T) ** 2) @ a / (2 * math.sqrt(8))
        risks = [np.mean(np.sqrt(1 + (v - y) ** 2) - 1) for v in (f, f_Q)]
        ratios.append(abs(risks[0] - risks[1]) / bound)
    assert 1e-4 < max(ratios) <= 1


def test_norm_bounds_are_those_of_theorem_7():
    # BL-37's last column: 32 pi max((p-2)^3, 1).
    fourth = [ridge_norm_bound(p) ** 4 for p in (2, 3, 4, 6)]
    np.testing.assert_allclose(fourth, [100.5, 100.5, 804, 6434], rtol=1e-3)
    scaled = ridge_norm_bound(4, alpha=-3, beta_norm=0.5, radius=2, delta=0.1) ** 4
    expected = 32 * math.pi * 8 * 9 * 2**4 * 0.5**8 / 0.1
    assert scaled == pytest.approx(expected, rel=1e-12)


def test_sample_sizes_are_consistent_with_each_other():
    # With the norm of Theorem 7 and isotropic inputs the general formula is the special one, up to
    # the 32 pi and (p - 2)^3 against p^3.
    d, p, eps = 50, 6, 0.1
    general = quadratic_sample_size(
        norm=ridge_norm_bound(p, alpha=2), second_moment=1 / math.sqrt(d), epsilon=eps
    )
    special = sample_sizes(d, p, alpha=2, epsilon=eps)
    assert general / special.quadratic == pytest.approx(32 * math.pi * 4**3 / 6**3, rel=1e-10)
    assert special.ratio == pytest.approx(p / d)
    # 2-XOR: B_w^4 = 8 pi, B_x = sqrt(d), M = 1/sqrt(d).
    xor = quadratic_sample_size(
        norm=(8 * math.pi) ** 0.25, second_moment=1 / 7, radius=7, epsilon=eps
    )
    assert xor / sample_sizes(49, "two-xor", epsilon=eps).quadratic == pytest.approx(8 * math.pi)
    assert sample_sizes(49, "two-xor", epsilon=eps).ratio == pytest.approx(1 / 49)


def test_theorem_4_has_the_papers_penalty_and_its_bounds_move_the_right_way():
    sizes = {"d": 10, "m": 10**8}
    base = landscape_theory(
        opt=0.1, norm_star=(8 * math.pi) ** 0.25, epsilon=0.1, gamma=1.0, **sizes
    )
    assert base.strength == pytest.approx(5.7e-8, rel=0.01)  # BL-28
    assert base.strength == pytest.approx(0.3 / (8297.856 * (8 * math.pi) ** 2), rel=1e-12)
    assert base.risk == pytest.approx(0.3)
    assert base.norm == pytest.approx((8 * math.pi) ** 0.25 * 2 ** (1 / 8))
    # With growing width the localisation radius falls to that of the penalty alone.
    wide = landscape_theory(
        opt=0.1, norm_star=(8 * math.pi) ** 0.25, epsilon=0.1, gamma=1.0, d=10, m=10**80
    )
    assert base.radius > wide.radius
    assert wide.radius == pytest.approx(wide.strength ** (-1 / 8), rel=0.01)
    zero = landscape_theory(opt=0, norm_star=1.0, epsilon=0.1, gamma=1.0, **sizes)
    assert zero.risk == 0.1


def test_the_constant_of_theorem_4_is_the_maximum_of_its_polynomial():
    # BL-T16: max of 56 p^3 - 5 p^4, at p = 8.4.
    p = np.linspace(8, 9, 100_001)
    value = (56 * p**3 - 5 * p**4).max()
    theory = landscape_theory(opt=0, norm_star=1.0, epsilon=1.0, gamma=1.0, d=1, m=1)
    assert 1 / theory.strength == pytest.approx(value, rel=1e-9)


def test_orders_have_the_exponents_of_the_lemmas():
    widths = 10.0 ** np.arange(12, 17)
    sizes = {"norm": 1.0, "largest": 0.5}
    orders = [coupling_orders(3, int(m), norm_star=2.0, **sizes) for m in widths]
    for values in zip(*orders, strict=True):
        slope, _ = np.polyfit(np.log(widths), np.log(values), 1)
        assert slope == pytest.approx(-0.25, abs=0.01)
    one, double = (coupling_orders(3, 100, norm_star=v, **sizes) for v in (2.0, 4.0))
    assert double.hessian == pytest.approx(4 * one.hessian)
    assert double.gradient == one.gradient
    # The width that the theorem asks for: eps^-4 at small eps, and its terms by hand.
    assert landscape_width(2, norm=1.0, epsilon=1.0, radius=1.0) == 1 + 16 + 4 + 32
    ratio = landscape_width(2, norm=1.0, epsilon=1e-4) / landscape_width(2, norm=1.0, epsilon=1e-3)
    assert ratio == pytest.approx(1e4, rel=1e-3)


def test_bad_arguments_are_refused(no_shape_checker):
    params, x = problem(6, 3, 8)
    with pytest.raises(ValueError, match=r"`signs` must have shape \(6,\)"):
        rademacher_quadratic_supremum(params, x, np.ones(5), norm=1.0)
    with pytest.raises(ValueError, match="`norm` must be a positive number, got norm=0"):
        rademacher_quadratic(params, x, norm=0, key=jax.random.key(0))
    with pytest.raises(ValueError, match="`k` must be at most 1 for relu"):
        rademacher_operator_bound(params, x, activation="relu")
    with pytest.raises(ValueError, match="`draws` must be an integer >= 2"):
        rademacher_quadratic(params, x, norm=1.0, draws=1, key=jax.random.key(0))
    with pytest.raises(ValueError, match=r"one column for each of x"):
        quadratic_gap(params, x[:, :2], norm=1.0)
    with pytest.raises(ValueError, match="2, 3, or an even number from 4 on, got power=5"):
        ridge_norm_bound(5)
    with pytest.raises(ValueError, match=r"`delta` must be a probability in \(0, 1\]"):
        ridge_norm_bound(2, delta=0.0)
    with pytest.raises(ValueError, match="`epsilon` must be a positive number"):
        sample_sizes(3, "two-xor", epsilon=0)
    with pytest.raises(ValueError, match="`gamma` must be a positive number"):
        landscape_theory(opt=0, norm_star=1.0, epsilon=1.0, gamma=0, d=1, m=1)
    with pytest.raises(ValueError, match="`x` must have no row of zeros"):
        second_moment_norm(np.zeros((2, 2)))


def test_the_gap_asks_for_the_symmetric_start_that_it_is_proved_for(getkey):
    net = TwoLayer(3, 4, "relu3", init="symmetric")
    params, x = net.init(key=getkey()), np.eye(3)
    for wrong in (
        TwoLayerParams(W=params.W, a=10 * params.a),
        TwoLayerParams(W=params.W.at[0].add(1.0), a=params.a),
    ):
        with pytest.raises(ValueError, match="`params0` must be a symmetric start"):
            quadratic_gap(wrong, x, norm=1.0)
