# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import jax.scipy.stats
import numpy as np
import pytest

from unlazy.nets import ResNet3
from unlazy.papers.allenzhu_li2019 import (
    ResNetConstants,
    parity_concept,
    rademacher_weight_norms,
    resnet_sample_sizes,
    resnet_theory,
)
from unlazy.papers.shared.conditions import Condition


def test_prescriptions_are_the_formulas():
    # RN-28, by hand: k = 2, p_F = 3, C_s(F) = 1.5, p_G = 2, C_s(G) = 2.5, alpha = 0.05.
    theory = resnet_theory(
        10**4, 2, alpha=0.05, c_s_F=1.5, c_s_G=2.5, p_F=3, p_G=2, B_F=1.0, opt=0.01
    )
    assert theory.tau_w == pytest.approx(2 * 3 * 1.5)
    assert theory.tau_v == pytest.approx(0.05 * 2 * 2 * 2.5)
    assert theory.delta == pytest.approx(0.01 + 0.05**4 * 10**4 * 4)
    assert theory.steps == pytest.approx(81 / theory.delta**2)
    assert theory.rate_w == 0.1  # delta is .26
    # The other form of the rate, alpha p_G C_s(G) / (p_F C_s(F)).
    assert theory.rate_v == pytest.approx(0.1 * (0.05 * 2 * 2.5 / (3 * 1.5)) ** 2)


def test_the_default_bound_on_f_is_that_of_the_complexities():
    # RN-14: B_F <= sqrt(k) p_F C_s(F).
    given = resnet_theory(1000, 4, alpha=0.01, c_s_F=1.5, c_s_G=1.0, p_F=2, B_F=2 * 2 * 1.5)
    assert resnet_theory(1000, 4, alpha=0.01, c_s_F=1.5, c_s_G=1.0, p_F=2).delta == given.delta


def test_failures_are_named_with_their_factor_and_the_worst_comes_first():
    theory = resnet_theory(1000, 1, alpha=0.1, c_s_F=2.0, c_s_G=2.0, B_F=1.0)
    assert not theory.valid
    second, first = theory.failed
    assert second.text == "tau_v^-2 <= sigma_v"
    assert second.excess == pytest.approx(0.2**-2)
    assert first.excess == pytest.approx(2 / (1000**0.124 * 1000 ** (-1 / 16)))
    table = str(theory).splitlines()
    assert len(table) == 1 + len(theory.conditions)
    assert sum("fails by" in line for line in table) == 2
    assert table[0].startswith("tau_w 2, tau_v 0.2, delta 0.0064")


def test_conditions_hold_from_a_width_on_that_soon_is_out_of_reach():
    # sigma_v >= tau_v^-2 and sigma_v (k/m)^(3/8) <= tau_v together ask for m >= k tau_v^-8 = 3.9e5;
    # with three outputs tau_w = 6 <= m^(1/8 - 1/16 - .001) for m >= 6^(1/.0615) = 4.5e12.
    settings: dict[str, Any] = {"alpha": 0.1, "c_s_F": 2.0, "c_s_G": 2.0, "sigma_v": 25.001}
    assert not resnet_theory(389_000, 1, **settings).valid
    assert resnet_theory(392_000, 1, **settings).valid
    assert not resnet_theory(4 * 10**12, 3, **settings).valid
    assert resnet_theory(5 * 10**12, 3, **settings).valid


def test_every_condition_can_fail():
    # One setting for each, and the condition that it breaks.
    good: dict[str, Any] = {
        "m": 10**6,
        "k": 1,
        "alpha": 0.1,
        "c_s_F": 2.0,
        "c_s_G": 2.0,
        "sigma_v": 25.01,
    }
    assert resnet_theory(**good).valid
    breaks = {
        "alpha <= 1/(k p_G C_s(G))": {"alpha": 0.6},
        "OPT + (alpha k p_G C_s(G))^4 (1 + B_F)^2 <= delta": {"delta": 0.0143},
        "m^(1/8+.001) sigma_w <= tau_w": {"sigma_w": 0.5},
        "tau_w <= m^(1/8-.001) sigma_w^(1/4)": {"c_s_F": 3.0},
        "sigma_v (k/m)^(3/8) <= tau_v": {"sigma_v": 40.0},
        "tau_v <= sigma_v/polylog": {"sigma_v": 0.1},
        "tau_v <= 1/polylog": {"constants": ResNetConstants(polylog=6.0)},
        "tau_v^-2 <= sigma_v": {"sigma_v": 20.0},
        "m^(-1/2+.01) <= sigma_w": {"sigma_w": 1e-3},
        "sigma_w <= m^-.01": {"sigma_w": 0.9},
        "polylog <= sigma_v": {"sigma_v": 0.9},
        "sigma_v <= m^(3/8-.01)": {"sigma_v": 160.0},
    }
    assert [c.text for c in resnet_theory(**good).conditions] == list(breaks)
    for text, change in breaks.items():
        assert text in [c.text for c in resnet_theory(**(good | change)).failed]


def test_samples_grow_like_the_inverse_square_of_the_promised_risk():
    # T = tau_w^2 / min(1, delta^2): four times the samples for half the risk, and no fewer above 1.
    settings: dict[str, Any] = {"alpha": 0.03, "c_s_F": 2.0, "c_s_G": 2.0}
    least = resnet_theory(10**6, 2, **settings)
    risks = np.array([1.5, 3.0, 6.0]) * least.delta
    found = [resnet_theory(10**6, 2, delta=float(risk), **settings) for risk in risks]
    steps = [theory.steps for theory in found]
    slope = np.polyfit(np.log(risks), np.log(steps), 1)[0]
    assert slope == pytest.approx(-2, abs=1e-9)
    assert steps[0] == pytest.approx(least.steps / 1.5**2)
    assert [theory.delta for theory in found] == pytest.approx(risks)
    assert found[0].rate_w == pytest.approx(min(0.1, risks[0]))
    assert {c.text for c in found[0].failed} == {c.text for c in least.failed}
    above = [resnet_theory(10**6, 2, delta=risk, **settings).steps for risk in (1.0, 50.0)]
    assert above[0] == above[1] == pytest.approx(least.tau_w**2)
    # A risk below the floor is no promise of the theorem, and the floor is that with OPT.
    noisy = resnet_theory(10**6, 2, delta=least.delta, opt=0.01, **settings)
    missed = next(c for c in noisy.failed if c.text.startswith("OPT"))
    assert missed.excess == pytest.approx(1 + 0.01 / least.delta)


def test_theory_of_a_concept_and_a_network_is_that_of_their_numbers():
    # Two routes: the numbers copied by hand from the complexity, the concept itself.
    parity = parity_concept((0, 2, 5), inputs=7, alpha=-0.2)
    net = ResNet3(7, 300, 3, sigma_w=0.3, sigma_v=2.5)
    known = parity.complexity(constant=3.0)
    by_hand = resnet_theory(
        300,
        3,
        alpha=0.2,
        c_s_F=known.base.c_s,
        c_s_G=known.composite.c_s,
        p_F=known.base_terms,
        p_G=known.composite_terms,
        B_F=1.0,
        delta=0.4,
        opt=0.1,
        sigma_w=0.3,
        sigma_v=2.5,
    )
    found = parity.theory(net, B_F=1.0, delta=0.4, opt=0.1, constant=3.0)
    assert str(found) == str(by_hand)
    assert found.tau_w == pytest.approx(3 * 1 * 3.0 * 2 * math.sqrt(2 * 7 / 3))  # k C* (i+1) |c_1|
    with pytest.raises(ValueError, match="`net` must have 7 inputs and 3 outputs, as the concept"):
        parity.theory(ResNet3(6, 300, 3))
    with pytest.raises(ValueError, match=r"net\.init_kind='experiment'"):
        parity.theory(ResNet3(7, 300, 3, init="experiment"))


def test_hidden_constants_multiply():
    settings: dict[str, Any] = {
        "m": 1000,
        "k": 1,
        "alpha": 0.1,
        "c_s_F": 2.0,
        "c_s_G": 2.0,
        "B_F": 1.0,
    }
    one = resnet_theory(**settings)
    twice = ResNetConstants(tau_w=2.0, tau_v=3.0, delta=5.0, steps=7.0)
    other = resnet_theory(**settings, constants=twice)
    assert other.tau_w == 2 * one.tau_w
    assert other.tau_v == pytest.approx(3 * one.tau_v)
    assert other.delta == pytest.approx(5 * one.delta)
    assert other.steps == pytest.approx(7 * 4 / 25 * one.steps)
    settings["c_s_F"] = 0.1
    assert resnet_theory(**settings).tau_w == 1  # at least 1


def test_numbers_beyond_the_range_of_floats_are_infinite():
    theory = resnet_theory(100, 3, alpha=1.0, c_s_F=1e200, c_s_G=1e200)
    assert (theory.delta, theory.steps) == (math.inf, math.inf)
    assert resnet_theory(100, 3, alpha=1e-200, c_s_F=1.0, c_s_G=1.0).failed[0].excess == math.inf
    # A width has only small powers: 10^320 has them all.
    wide = resnet_theory(10**320, 1, alpha=0.1, c_s_F=2.0, c_s_G=2.0)
    powers = {c.text: (c.value, c.most) for c in wide.conditions}
    assert powers["sigma_v <= m^(3/8-.01)"][1] == pytest.approx(10.0 ** (320 * 0.365))
    assert powers["m^(-1/2+.01) <= sigma_w"] == (
        pytest.approx(10.0 ** (-320 * 0.49), rel=1e-9, abs=0),
        pytest.approx(1e-80, rel=1e-9, abs=0),
    )
    with pytest.raises(ValueError, match="`k` must be in the range of floats"):
        resnet_theory(100, 10**320, alpha=0.1, c_s_F=2.0, c_s_G=2.0)
    # Not where only a factor is: delta = (alpha size_G)^4 (1 + B_F)^2.
    small = resnet_theory(100, 1, alpha=1e-100, c_s_F=1.0, c_s_G=1.0, B_F=1e200)
    assert small.delta == pytest.approx(1.0)


def test_a_value_on_the_boundary_is_allowed():
    assert Condition("", 0.1 + 0.2, 0.3).holds
    assert not Condition("", 0.3001, 0.3).holds


def test_sample_sizes_have_the_exponents_of_the_paper():
    # RN-29: alpha = d^(-0.1) gives d^1.8 against d^k / (1000 k!).
    small, large = (resnet_sample_sizes(d, 5, alpha=d**-0.1) for d in (10**5, 10**6))
    assert large.log10_resnet - small.log10_resnet == pytest.approx(1.8)
    assert large.log10_kernel - small.log10_kernel == pytest.approx(5, abs=1e-3)
    assert large.log10_kernel == pytest.approx(30 - math.log10(120) - 3, abs=1e-3)
    half = resnet_sample_sizes(10**6, 5, alpha=0.5, free=10**3)
    assert half.log10_kernel == pytest.approx(math.log10(math.comb(1000, 5) / 1000))


def test_weight_norm_bound_is_above_the_exact_supremum():
    # RN-30. All networks with (1/sqrt m) sum ||w_j|| <= B: a supremum is B times that over one unit
    # neuron of either sign, here on a grid of directions in the plane. The mean over 4000 draws
    # has a relative standard error of 1 %; the bound is about twice as large.
    rng = np.random.default_rng(30)
    W, n = rng.standard_normal((6, 2)), 40
    angle = rng.uniform(0, 2 * np.pi, n)
    x = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    grid = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    values = np.maximum(np.stack([np.cos(grid), np.sin(grid)], axis=1) @ x.T, 0)
    signs = rng.choice([-1.0, 1.0], (4000, n))
    supremum = np.mean(np.max(np.abs(signs @ values.T), axis=1)) / n
    B = np.sum(np.linalg.norm(W, axis=1)) / math.sqrt(6)
    bound = rademacher_weight_norms(W, n)
    assert B * supremum < bound.path < 4 * B * supremum
    assert bound.path == pytest.approx(2 * B / math.sqrt(n), rel=1e-14)
    assert bound.frobenius == pytest.approx(2 * np.linalg.norm(W) / math.sqrt(n), rel=1e-14)
    assert bound.path <= bound.frobenius
    assert rademacher_weight_norms(W, n, radius=3.0).path == pytest.approx(3 * bound.path)
    equal = rademacher_weight_norms(np.ones((7, 3)), n)  # equal norms: both bounds agree
    assert equal.path == pytest.approx(equal.frobenius, rel=1e-14)


def test_chi_square_tails_are_within_their_bound(x64):
    # RN-56, B.1: P(||g||^2 - m >= 2 sqrt(m s) + 2 s) <= e^-s; m = 200: .0699, .0181, .0014 over 2e5
    # draws, whose standard errors are at most 6e-4, 3e-4 and 9e-5; exact here.
    for s, measured, error in ((1.0, 0.0699, 6e-4), (2.0, 0.0181, 3e-4), (4.0, 0.0014, 9e-5)):
        tail = float(jax.scipy.stats.chi2.sf(200 + 2 * math.sqrt(200 * s) + 2 * s, 200.0))
        assert tail <= math.exp(-s)
        assert tail == pytest.approx(measured, abs=3 * error)


def test_complexity_bounds_values_and_slopes_of_a_concept():
    # RN-56, A.3: for F_r(x) = sum_i a phi(<w1, xa>/||xa||) <w2, xa>, C* = 1: ||F|| at most
    # sqrt(k) p C_s ||xa|| and slopes at most sqrt(k) p C_s (.465 and .476 of that over 200
    # functions there); with ||x|| the first fails near 0.
    rng = np.random.default_rng(56)
    k, p, d = 2, 3, 4
    ratios, slopes, near_zero = [], [], []
    for _ in range(50):
        w1, w2 = (unit(rng.standard_normal((k, p, d + 1))) for _ in range(2))
        a = rng.uniform(-1, 1, (k, p))
        c = rng.standard_normal(6) * np.array([1, 1, 0, 1, 0, 1])  # constant and odd terms only
        c_s = np.sum((np.arange(6) + 1) * np.abs(c))

        def F(x, w1=w1, w2=w2, a=a, c=c):
            xa = np.append(x, 1)
            u = w1 @ xa / np.linalg.norm(xa)
            return np.sum(a * np.polynomial.polynomial.polyval(u, c) * (w2 @ xa), axis=1)

        bound = math.sqrt(k) * p * c_s
        for x in (rng.standard_normal(d), np.full(d, 1e-3)):
            ratios.append(np.linalg.norm(F(x)) / (bound * math.hypot(1, np.linalg.norm(x))))
            steps = 1e-6 * np.eye(d)
            jacobian = np.stack([(F(x + h) - F(x - h)) / 2e-6 for h in steps], axis=1)
            slopes.append(np.linalg.norm(jacobian, 2) / bound)
        near_zero.append(np.linalg.norm(F(np.full(d, 1e-3))) / (bound * 2e-3))
    assert max(near_zero) > 1  # ||x|| in the place of ||xa||
    assert max(ratios) < 1
    assert max(slopes) < 1


def unit(w):
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"m": 0}, "`m` must be an integer >= 1"),
        ({"alpha": 0.0}, "`alpha` must be a positive number"),
        ({"c_s_G": -1.0}, "`c_s_G` must be a positive number"),
        ({"delta": 0.0}, "`delta` must be a positive number"),
        ({"opt": -0.1}, "`opt` must be finite and at least 0"),
    ],
)
def test_bad_arguments_are_named(change, message):
    settings: dict[str, Any] = {"m": 10, "k": 1, "alpha": 0.1, "c_s_F": 1.0, "c_s_G": 1.0}
    with pytest.raises(ValueError, match=message):
        resnet_theory(**(settings | change))


def test_other_bad_arguments_are_named(no_shape_checker):
    with pytest.raises(ValueError, match="`free` must lie between k=5 and d=10"):
        resnet_sample_sizes(10, 5, alpha=0.1, free=4)
    with pytest.raises(ValueError, match=r"`W` must have shape \(m, d\)"):
        rademacher_weight_norms(np.ones(3), 4)  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ValueError, match="`polylog` must be a positive number"):
        ResNetConstants(polylog=0.0)
