# SPDX-License-Identifier: Apache-2.0
"""Theorem 6 beside gaps that are known: movements that fit labels drawn by coin flips."""

import itertools
import math

import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020 import (
    conditioned_second_moment_norm,
    quadratic_gap,
    rademacher_quadratic,
    rademacher_quadratic_supremum,
    randomized_gap,
    second_moment_norm,
)


def sphere(rng, n, d):
    x = rng.standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def coin_flips(n, *, d=5, m=64, seed=0):
    """A start, a sample with labels that are coin flips, and as many held-out points as needed."""
    rng = np.random.default_rng(seed)
    net = TwoLayer(d, m, "relu3", init="symmetric")
    sample, held_out = ((sphere(rng, k, d), rng.choice([-1.0, 1.0], k)) for k in (n, 4000))
    return net, net.init(key=jr.key(seed)), sample, held_out


def test_the_gap_of_a_movement_that_memorises_is_within_the_chain_of_bounds():
    """The labels themselves are the signs of the supremum, so its maximiser memorises most."""
    norm, gaps, bounds = 2.5, {}, {}
    for n in (40, 640):
        net, params, sample, held_out = coin_flips(n)
        best = rademacher_quadratic_supremum(params, *sample, norm=norm)
        found = randomized_gap(net, params, best.dW, sample, held_out, norm=norm, key=jr.key(1))
        # At small outputs the logistic loss has slope 1/2 and the held-out mean is that of zero:
        # the gap is half the supremum, less what the curvature of the loss takes, with 4 standard
        # errors to either side (a false alarm has probability 1e-4).
        assert 0.4 * best.value - 4 * found.standard_error <= found.gap
        assert found.gap <= 0.5 * best.value + 4 * found.standard_error
        assert 5 * found.standard_error < found.gap
        assert found.holds
        assert found.norm == norm
        gaps[n], bounds[n] = found.gap, found.bound.main
    # Both fall like the root of the number of samples.
    assert math.log(gaps[40] / gaps[640]) / math.log(16) == pytest.approx(0.5, abs=0.12)
    assert math.log(bounds[40] / bounds[640]) / math.log(16) == pytest.approx(0.5, abs=0.12)
    assert 5e-4 < gaps[40] / bounds[40] < 5e-3  # the theorem's constants are far from tight


def test_the_gap_is_that_of_all_signs_on_small_networks():
    """Against all 2^6 signs and both risks by plain NumPy, within 5 standard errors of signs."""
    net, params, sample, _ = coin_flips(6, d=3, m=6)
    other = coin_flips(8, d=3, m=6, seed=1)[2]
    W = np.random.default_rng(2).standard_normal((6, 3)) / 2
    found = randomized_gap(net, params, W, sample, other, draws=400, key=jr.key(0))
    W0, a = (np.asarray(v, np.float64) for v in (params.W, params.a))
    risks = []
    for x, y in (sample, other):
        outputs = [
            np.maximum(x @ (W0 + np.array(s)[:, None] * W).T, 0) ** 3 / 6 @ a / math.sqrt(6)
            for s in itertools.product((1.0, -1.0), repeat=6)
        ]
        risks.append(np.mean(np.log1p(np.exp(-y * np.array(outputs)))))
    np.testing.assert_allclose([found.sample, found.held_out], risks, atol=2e-3)
    assert found.gap == pytest.approx(risks[1] - risks[0], abs=1e-3)
    assert found.norm == pytest.approx(np.sum(np.sum(W**2, axis=1) ** 2) ** 0.25, rel=1e-6)


def test_the_measured_gap_is_below_twice_the_complexity():
    """In expectation L_P - L is at most twice the Rademacher complexity: mean of six samples."""
    gaps, norm = [], 2.5
    drawn = [coin_flips(40, seed=seed) for seed in range(6)]
    for net, params, sample, held_out in drawn:
        dW = rademacher_quadratic_supremum(params, *sample, norm=norm).dW
        found = randomized_gap(net, params, dW, sample, held_out, norm=norm, key=jr.key(1))
        gaps.append(found.gap)
    _, params, sample, _ = drawn[-1]
    chain = rademacher_quadratic(params, sample[0], norm=norm, draws=6, key=jr.key(0))
    assert 0.2 * chain.exact.value < np.mean(gaps) <= 2 * chain.exact.value


@pytest.mark.parametrize("kappa", [1.0, 3.0, 25.0])
@pytest.mark.parametrize("d", [2, 9])
def test_a_condition_number_bounds_the_second_moment_and_one_spectrum_attains_it(d, kappa):
    bound = conditioned_second_moment_norm(d, kappa)
    rng = np.random.default_rng(0)
    for _ in range(200):
        spectrum = np.exp(rng.uniform(0, math.log(kappa), d)) if kappa > 1 else np.ones(d)
        condition = spectrum.max() / spectrum.min()
        value = math.sqrt(spectrum.max() / spectrum.sum())
        assert value <= conditioned_second_moment_norm(d, condition) * (1 + 1e-12) <= bound + 1e-9
    worst = np.append(kappa, np.ones(d - 1))
    assert math.sqrt(worst.max() / worst.sum()) == pytest.approx(bound, rel=1e-14)
    assert bound <= math.sqrt(kappa / d) * (1 + 1e-15)
    assert math.sqrt(kappa / d) <= conditioned_second_moment_norm(d, kappa, form="paper") + 1e-15


def test_the_condition_number_of_real_inputs_gives_a_gap_above_their_own():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((300, 6)) * np.array([3.0, 2.0, 1.0, 1.0, 0.7, 0.5])
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    eigenvalues = np.linalg.eigvalsh(x.T @ x / 300)
    moment = conditioned_second_moment_norm(6, float(eigenvalues[-1] / eigenvalues[0]))
    assert second_moment_norm(x) <= moment
    params = TwoLayer(6, 8, "relu3", init="symmetric").init(key=jr.key(0))
    own, by_condition = (
        quadratic_gap(params, x, norm=1.0, second_moment=value) for value in (None, moment)
    )
    assert by_condition.main / own.main == pytest.approx(moment / second_moment_norm(x), rel=1e-12)
    assert by_condition.coupling == own.coupling


def test_what_theorem_6_does_not_cover_is_refused():
    net, params, sample, held_out = coin_flips(6, d=3, m=6)
    with pytest.raises(ValueError, match="`loss` must have slope and curvature of at most 1"):
        randomized_gap(net, params, params.W, sample, held_out, loss="squared", key=jr.key(0))
    with pytest.raises(ValueError, match=r"`loss` must be at most 1 at output zero .* got 1\.313"):
        randomized_gap(net, params, params.W, sample, held_out, loss="soft-hinge", key=jr.key(0))
    with pytest.raises(ValueError, match="`norm` must be at least that of the movement"):
        randomized_gap(net, params, params.W, sample, held_out, norm=0.1, key=jr.key(0))
    with pytest.raises(ValueError, match="`delta` must move a neuron where `norm` is not given"):
        randomized_gap(net, params, 0 * params.W, sample, held_out, key=jr.key(0))
    with pytest.raises(ValueError, match=r"`condition` must be at least 1, got condition=0\.5"):
        conditioned_second_moment_norm(3, 0.5)
