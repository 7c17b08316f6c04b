# SPDX-License-Identifier: Apache-2.0
"""Numbers on record for the functions and sets behind the constructions: LG-40, pitfalls 2, 9."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from unlazy.papers.allenzhu_li_liang2019 import (
    function_complexity,
    hermite_indicator,
    indicator_error,
    indicator_function,
    interval_partition,
)
from unlazy.papers.shared import taylor_series
from unlazy.special import hermite

COS, DEGREE = taylor_series("cos", scale=7), 34


@pytest.mark.parametrize(("epsilon", "error"), [(0.1, 1e-5), (0.01, 1e-7), (0.001, 3e-9)])
def test_practical_truncation_costs_exp_what_was_recorded(epsilon, error):
    # LG-40, "sin, exp": one digit for both. Ours for exp are 1.60e-5, 1.60e-7 and 2.98e-9.
    h = indicator_function(
        "exp", method="paper", degree=12, truncation="practical", epsilon=epsilon
    )
    found = indicator_error(h, np.array([-0.95, 0.9])).max_error
    assert 0.5 * error < found < 2 * error


CASES = {
    "z": ([0, 1], 1), "z^2": ([0, 0, 1], 2), "z^3 - z": ([0, -1, 0, 1], 3), "sin z": ("sin", 11),
    "exp z": ("exp", 12), "sin 3z": (taylor_series("sin", scale=3), 19), "cos 7z": (COS, DEGREE),
}  # fmt: skip


@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
@pytest.mark.parametrize("name", CASES)
def test_the_sums_of_the_claim_are_within_the_complexity(name, epsilon):
    # LG-40, Claim C.2, with the paper's B_i: the sums of the sizes of |c'_i| h_i and |c'_i| h_i' on
    # [-B_i, B_i], attained at the ends, are at most C_eps(phi, 1)/2. That holds from C* = 2175 on
    # (z^2, eps = .1; 235 to 630 for the others), so for the paper's 10^4, and with it sup |h| and
    # the Lipschitz constant in a are at most C_eps(phi, 1).
    phi, degree = CASES[name]
    h = indicator_function(phi, method="paper", degree=degree, truncation="paper", epsilon=epsilon)
    B, c = h.limits, np.abs(h.factors)
    values = [c[i] * abs(hermite(B[i : i + 1], i)[i, 0]) for i in range(1, degree + 1)]
    slopes = [
        c[i] * math.sqrt(i) * abs(hermite(B[i : i + 1], i - 1)[i - 1, 0])
        for i in range(1, degree + 1)
    ]

    def half(constant):
        size = function_complexity(h.coefficients, epsilon=epsilon, constant=constant)
        return size.log10_c_eps - math.log10(2)

    assert math.log10(sum(values)) <= half(2175.0)
    assert math.log10(sum(slopes)) <= half(2175.0)
    assert math.log10(sum(values)) > half(200.0)  # and not for every constant
    assert h.bound <= (c[0] + sum(values)) * (1 + 1e-12)
    assert h.lipschitz <= sum(slopes) * (1 + 1e-12)
    assert math.log10(max(h.bound, h.lipschitz)) <= half(2175.0) + math.log10(2)
    # Neither is far below: where b is in the window of the largest degree, all terms are there.
    assert h.bound > 0.5 * max(values)
    assert h.lipschitz > 0.5 * max(slopes)


@pytest.mark.parametrize("epsilon", [0.1, 1e-3])
@pytest.mark.parametrize("name", CASES)
def test_what_the_claim_cuts_off_is_below_its_share_of_the_error(name, epsilon):
    # LG-40, Claim C.2: the sums of |c'_i| E|h_i(z)| 1[|z| >= B_i], which is twice the tail of LG-27
    # beyond the roots of h_i, and of |c'_i| |h_i(B_i)| P(|z| >= B_i) are at most eps/8. With the
    # paper's B_i, above 100, both are below e^-4000.
    phi, degree = CASES[name]
    h = indicator_function(phi, method="paper", degree=degree, truncation="paper", epsilon=epsilon)
    cut, held = [], []
    for i in (i for i in range(1, degree + 1) if h.factors[i]):
        B, c = h.limits[i], abs(h.factors[i])
        H = hermite(np.array(B), i)
        cut.append(math.log(2 * c * H[i - 1] / math.sqrt(i)) + norm.logpdf(B))
        held.append(math.log(2 * c * H[i]) + norm.logsf(B))
    for logs in (cut, held):
        assert np.logaddexp.reduce(logs) < -4000 < math.log(epsilon / 8)


def test_the_practical_truncation_cuts_off_no_more_than_the_claim_allows():
    # The same sums with B_i = 2 sqrt(i) + sqrt(2 log(1/eps)) of LG-40, by quadrature and LG-27.
    z, w = np.polynomial.legendre.leggauss(400)
    for name in ("sin z", "exp z"):
        for epsilon in (0.1, 0.01, 0.001):
            phi, degree = CASES[name]
            h = indicator_function(
                phi, method="paper", degree=degree, truncation="practical", epsilon=epsilon
            )
            cut = held = 0.0
            for i in range(1, degree + 1):
                B, c = float(h.limits[i]), abs(h.factors[i])
                points = B + 7 * (z + 1)
                tail = 14 * np.sum(w * np.abs(hermite(points, i)[i]) * norm.pdf(points))
                assert tail == pytest.approx(2 * hermite_indicator(np.array(B), i)[i], rel=1e-9)
                cut += c * tail
                held += c * abs(hermite(np.array([B]), i)[i, 0]) * 2 * norm.sf(B)
            # 1.0e-3, 1.7e-5, 4.4e-7 for sin and 2.8e-3, 3.4e-5, 7.1e-7 for exp, little less held.
            assert 1e-3 * epsilon / 8 < held < cut < epsilon / 8


def test_a_large_sample_misses_most_of_the_energy_of_a_high_degree():
    # Pitfall 9: 4e5 draws gave a root mean square of 1631 against the exact 4989. With NumPy's
    # generator at seed 0 that sample is ours as well; five more gave 1845 to 5116.
    h = indicator_function(COS, degree=DEGREE)
    assert math.sqrt(h.energy) == pytest.approx(4989, abs=0.5)
    a, b = np.random.default_rng(0).standard_normal((2, 400_000))
    assert np.sqrt(np.mean(h(a, b) ** 2)) == pytest.approx(1631, abs=0.5)


def test_float32_is_fine_in_the_recurrence_and_not_in_monomials():
    # Pitfall 9: 5e-7 relative root mean square at degree 34; ours 4.0e-7 for the same rounded
    # arguments and 6.3e-7 for unrounded ones. By monomials, the top polynomial is off by 8 %.
    h = indicator_function(COS, degree=DEGREE)
    a, b = np.random.default_rng(0).standard_normal((2, 100_000))
    a32, b32 = a.astype(np.float32), b.astype(np.float32)
    H = hermite32(a32)
    root = np.sqrt(np.arange(1, DEGREE + 1, dtype=np.float32))
    density = np.exp(-(b32**2) / 2) / np.float32(math.sqrt(2 * math.pi))
    beta = np.concatenate([
        ndtr(b32)[None], hermite32(-b32)[:DEGREE] * density / root[:, None]
    ])  # fmt: skip
    found = np.sum(h.factors.astype(np.float32)[:, None] * H * beta, axis=0)
    assert found.dtype == np.float32
    exact = h(a, b)
    assert 1e-7 < relative(found, exact) < 2e-6
    assert relative(H[DEGREE], hermite(a32, DEGREE)[DEGREE]) < 1e-6
    coefficients = np.polynomial.hermite_e.herme2poly(np.eye(DEGREE + 1)[DEGREE])
    coefficients = (coefficients / math.sqrt(math.factorial(DEGREE))).astype(np.float32)
    powers = a32 ** np.arange(DEGREE + 1, dtype=np.float32)[:, None]
    assert relative(coefficients @ powers, hermite(a32, DEGREE)[DEGREE]) > 0.01


def hermite32(t):
    """Orthonormal polynomials, all arithmetic in float32."""
    rows, root = [np.ones_like(t), t], np.sqrt(np.arange(DEGREE + 1, dtype=np.float32))
    for k in range(1, DEGREE):
        rows.append((t * rows[k] - root[k] * rows[k - 1]) / root[k + 1])
    return np.stack(rows)


def relative(found, exact):
    return math.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))


@pytest.mark.parametrize(("tau", "largest"), [(0.01, 1.567e-3), (0.3, 4.714e-2)])
def test_the_papers_threshold_is_biased_by_as_much_as_recorded(tau, largest):
    # Pitfall 2: with e from E[|g| | |g| <= e] = y, E[s g | I] = y tau'/tau. On record: a bias of at
    # most 1.0e-3 at tau = .01 and 4.7e-2 at tau = .3. The first is its value at y = .005, the only
    # point of a grid of 201 that lies where the intervals meet; in between it reaches 1.567e-3.
    end = norm.ppf(0.5 + tau / 2)  # the intervals meet for y below the mean of g on [0, end]
    meet = mean_below(end)

    def bias(y):
        e = brentq(lambda e: mean_below(e) - y, 1e-9, 1.01 * end, xtol=1e-14)
        return y * (1 - (2 * norm.cdf(e) - 1) / tau)

    y = np.linspace(0, meet, 401)[1:-1]
    assert max(bias(value) for value in y) == pytest.approx(largest, rel=2e-3)
    grid = [value for value in np.linspace(0, 1, 201)[1:] if value < meet]
    recorded = {0.01: 1.0e-3, 0.3: 4.7e-2}[tau]
    assert max(bias(value) for value in grid) == pytest.approx(recorded, rel=0.02)
    # Ours has none, there or elsewhere: where the sets meet is where they stop depending on y.
    sets = interval_partition(np.array([0.999 * meet, 1.001 * meet]), tau)
    np.testing.assert_array_equal(np.isfinite(sets.outer), [True, False])


def mean_below(e):
    """E[|g| | |g| <= e]."""
    return (norm.pdf(0) - norm.pdf(e)) / (norm.cdf(e) - 0.5)
