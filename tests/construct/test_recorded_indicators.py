# SPDX-License-Identifier: Apache-2.0
"""Numbers on record for the functions and sets behind the constructions: LG-40, pitfalls 2, 9."""

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr
from scipy.stats import norm

from unlazy.construct import indicator_error, indicator_function, interval_partition
from unlazy.special import hermite, taylor_series

COS, DEGREE = taylor_series("cos", scale=7), 34


@pytest.mark.parametrize(("epsilon", "error"), [(0.1, 1e-5), (0.01, 1e-7), (0.001, 3e-9)])
def test_practical_truncation_costs_exp_what_was_recorded(epsilon, error):
    # LG-40, "sin, exp": one digit for both. Ours for exp are 1.60e-5, 1.60e-7 and 2.98e-9.
    h = indicator_function(
        "exp", method="paper", degree=12, truncation="practical", epsilon=epsilon
    )
    found = indicator_error(h, np.array([-0.95, 0.9])).max_error
    assert 0.5 * error < found < 2 * error


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
