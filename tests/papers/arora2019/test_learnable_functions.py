# SPDX-License-Identifier: Apache-2.0
import itertools
import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlazy.kernels import relu_gram
from unlazy.labels import energy as label_energy
from unlazy.papers.arora2019 import (
    Arctan,
    Constant,
    Cosine,
    Power,
    QuadraticForm,
    learnable,
    learnable_chain,
    ntk_series_coefficients,
)


def on_sphere(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def axis(d, length=1.0):
    return length * np.eye(d)[0]


def cost(x, *functions):
    return math.sqrt(label_energy(relu_gram(x), np.sum([f(x) for f in functions], axis=0)))


def test_energies_grow_with_n_up_to_the_sharp_bound_and_odd_powers_without_end():
    # AR-56, d = 3, nested samples.
    x = on_sphere(800, 3)
    sizes = (50, 100, 200, 400, 800)
    powers = (1, 2, 3, 4, 5, 6, 8)
    H, y = np.asarray(relu_gram(x)), x[:, :1] ** np.array(powers)
    energies = [np.sum(y[:n] * np.linalg.solve(H[:n, :n], y[:n]), axis=0) for n in sizes]

    def costs(p):
        return np.sqrt(energies)[:, powers.index(p)]

    for p in (1, 2, 4, 6, 8):
        values = costs(p)
        assert np.all(np.diff(values) >= -1e-6)
        assert values[-1] <= learnable(Power(1.0, axis(3), p)).sharp * (1 + 1e-9)
    assert costs(1)[-1] == pytest.approx(2, abs=1e-3)  # tight
    np.testing.assert_allclose([costs(2)[-1], costs(4)[-1]], [2.242, 2.359], rtol=0.02)
    np.testing.assert_allclose([costs(6)[-1], costs(8)[-1]], [2.694, 2.980], rtol=0.02)
    for p in (3, 5):
        slope, error = fitted_slope(sizes, costs(p))
        assert slope == pytest.approx(0.83, abs=0.1)
        assert error < 0.1


def fitted_slope(sizes, values):
    """Exponent of a power law and its standard error."""
    coefficients, covariance = np.polyfit(np.log(sizes), np.log(values), 1, cov=True)
    return coefficients[0], math.sqrt(covariance[0, 0])


@pytest.mark.slow
def test_ten_dimensions_come_close_to_the_bound_of_linear_labels():
    # AR-56, d = 10, n = 800: 1.996 and 2.367.
    x = on_sphere(800, 10)
    assert cost(x, Power(1.0, axis(10), 1)) == pytest.approx(1.996, abs=0.003)
    assert cost(x, Power(1.0, axis(10), 2)) == pytest.approx(2.367, rel=0.02)


def test_odd_powers_have_no_bound_and_the_reason_is_given():
    bound = learnable(Power(1.0, axis(3), 1), Power(1.0, axis(3), 5), Power(2.0, axis(3), 3))
    assert bound.paper == bound.proof == bound.sharp == bound.tensor == math.inf
    assert bound.reason is not None
    assert bound.reason.startswith("degrees 3, 5 are odd: the kernel does not see them")
    absent = learnable(Power(0.0, axis(3), 3), Power(1.0, axis(3), 1))
    assert absent.reason is None
    assert absent.tensor == pytest.approx(2)


def test_quadratic_forms_are_bounded_by_the_frobenius_norm():
    # AR-57: 17.27 <= 18.75 << 121.3 for one random matrix; the order and the formulas for ours.
    A = np.random.default_rng(1).standard_normal((10, 10))
    A = (A + A.T) / 2
    bound = learnable(QuadraticForm(A))
    assert bound.tensor == pytest.approx(math.sqrt(2 * math.pi) * np.linalg.norm(A), rel=1e-12)
    assert bound.paper == pytest.approx(6 * np.linalg.norm(A, "nuc"), rel=1e-12)
    energy = cost(on_sphere(400, 10), QuadraticForm(A))
    assert 0.85 * bound.tensor < energy <= bound.tensor < bound.paper / 5


@pytest.mark.parametrize(
    ("b", "measured", "sharp", "paper"),
    [
        (0.5, 0.286, 0.314, 0.78),
        (1.0, 1.12, 1.28, 3.53),
        (2.0, 4.15, 6.52, 21.8),
        (4.0, 14.2, 88.3, 327),
        (8.0, 41.1, 7840, 35771),
    ],
)
def test_cosines_cost_what_the_table_says(b, measured, sharp, paper):
    # AR-57, d = 10, n = 400; measured on another sample, hence 5%.
    function = Cosine(axis(10, b))
    bound = learnable(function)
    assert bound.paper == pytest.approx(3 * b * math.sinh(b), rel=1e-12)
    assert bound.paper == pytest.approx(paper, rel=0.005)
    assert bound.tensor == pytest.approx(sharp, rel=0.005)
    assert cost(on_sphere(400, 10), function) == pytest.approx(measured, rel=0.05)


@pytest.mark.parametrize("b", [34.0, 35.0, 100.0, 400.0, 690.0])
def test_steep_cosines_have_their_finite_bounds(b):
    # Coefficients 1/p! and powers b^p leave the range of float64, their products do not.
    bound = learnable(Cosine(axis(3, b)))
    assert bound.reason is None
    with mp.workdps(30):
        paper: Any = 3 * b * mp.sinh(b)
        assert bound.paper == pytest.approx(float(paper), rel=1e-11)
        p, squares = 2, mp.mpf(0)
        term, c = mp.mpf(b) ** 2 / 2, 1 / (2 * mp.pi)
        while p < 3 * b + 60:
            squares += term**2 / c
            term *= mp.mpf(b) ** 2 / ((p + 1) * (p + 2))
            c *= mp.mpf(p - 1) ** 2 / (p * (p + 1))
            p += 2
        tensor: Any = mp.sqrt(squares)
        assert bound.tensor == pytest.approx(float(tensor), rel=1e-11)
    assert bound.tensor <= bound.sharp <= bound.proof <= bound.paper


@pytest.mark.parametrize("b", [720.0, 1e5, 1e300])
def test_bounds_that_float64_cannot_hold_say_so(b):
    bound = learnable(Cosine(axis(3, b)), Power(1.0, axis(3), 2))
    assert bound.paper == bound.proof == bound.sharp == bound.tensor == math.inf
    assert bound.reason is not None
    assert "above 1.8e308" in bound.reason
    assert "too steep" in str(learnable(Power(1.0, axis(3, 1e10), 40)).reason)
    chain = learnable_chain(np.eye(3)[1:], Power(1.0, axis(3, 1e3), 52))
    assert chain.bound == math.inf


def test_large_and_small_factors_that_cancel_are_no_overflow():
    # |alpha| |beta|^p is 1; alpha alone is near the end of float64, beta^p beyond it.
    bound = learnable(Power(1e-300, axis(3, 1e30), 10), Power(1e-320, axis(3, 1e160), 2))
    one = learnable(Power(1.0, axis(3), 10), Power(1.0, axis(3), 2))
    assert bound.tensor == pytest.approx(one.tensor, rel=1e-3)  # 1e-320 has three digits
    small = learnable(Power(1.0, axis(3, 1e-200), 2))
    assert (small.reason, small.paper) == (None, 0.0)
    zero = learnable(Cosine(np.zeros(3)), Power(0.0, axis(3), 4))
    assert zero.paper == zero.tensor == 0


def test_the_series_of_arctan_is_not_cut_by_small_coefficients():
    # At a norm near 2 terms fall like (b/2)^p, so that 1e-18 is at p = 8000, beyond 2^-p.
    b = 1.99
    bound = learnable(Arctan(axis(3, b)))
    with mp.workdps(30):
        # The sum of 3 p 2^(1-p) b^p / (p - 1) over even p: p / (p - 1) = 1 + 1 / (p - 1).
        z = mp.mpf(b) / 2
        exact = 6 * (z**2 / (1 - z**2) + z * mp.atanh(z))
        assert bound.paper == pytest.approx(float(exact), rel=1e-12)


@pytest.mark.parametrize(
    ("b", "measured", "sharp", "series", "closed"),
    [(0.5, 0.286, 0.314, 0.783, 0.800), (1.0, 1.122, 1.281, 3.648, 4.000)],
)
def test_arctan_costs_what_the_table_says(b, measured, sharp, series, closed):
    # AR-57 and AR-19g.
    function = Arctan(axis(10, b))
    bound = learnable(function)
    assert bound.paper == pytest.approx(series, abs=6e-4)
    assert bound.tensor == pytest.approx(sharp, abs=6e-4)
    assert 3 * b**2 / (1 - b**2 / 4) == pytest.approx(closed, abs=6e-4)
    assert bound.paper <= 3 * b**2 / (1 - b**2 / 4) <= 4 * b**2 + 1e-12
    assert cost(on_sphere(400, 10), function) == pytest.approx(measured, rel=0.05)


@pytest.mark.slow
def test_constants_cost_at_most_the_square_root_of_the_dimension():
    # AR-57: 6.88 / 7.61 / 7.71 for n = 50 / 200 / 800.
    x, one = on_sphere(800, 10), Constant(1.0, d=10)
    assert learnable(one).tensor == pytest.approx(math.sqrt(20 * math.pi), rel=1e-12)
    H = np.asarray(relu_gram(x))
    costs = [math.sqrt(label_energy(H[:n, :n], one(x[:n]))) for n in (50, 200, 800)]
    np.testing.assert_allclose(costs, [6.88, 7.61, 7.71], rtol=0.01)
    assert costs[0] < costs[1] < costs[2] < learnable(one).tensor


@pytest.mark.parametrize("function", [Cosine(axis(4, 1.7)), Arctan(axis(4, 1.2)), Constant(2.5, 4)])
def test_functions_are_the_sum_of_their_powers(function):
    x = on_sphere(30, 4)
    alpha, beta, p = function.powers()
    np.testing.assert_allclose((x @ beta.T) ** p @ alpha, function(x), atol=1e-13)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_bounds_are_ordered_and_hold_for_random_sums(seed):
    # AR-57: five mixed terms. energy <= tensor <= sharp <= proof <= paper, always.
    rng = np.random.default_rng(seed)
    terms = [
        Power(rng.standard_normal(), rng.standard_normal(4), int(p))
        for p in rng.choice([1, 2, 4, 6], 5)
    ]
    bound = learnable(*terms)
    energy = cost(on_sphere(40, 4, seed), *terms)
    chain = [energy, bound.tensor, bound.sharp, bound.proof, bound.paper]
    assert all(a <= b * (1 + 1e-7) for a, b in itertools.pairwise(chain))


def test_terms_of_one_degree_may_cancel():
    beta = np.array([1.0, 2.0])
    bound = learnable(Power(3.0, beta, 4), Power(-3.0, beta, 4))
    assert bound.tensor == 0
    assert bound.sharp > 100
    # Different degrees add in squares.
    two = learnable(Power(1.0, axis(2), 1), Power(1.0, axis(2), 2))
    assert two.tensor == pytest.approx(math.sqrt(4 + 2 * math.pi))


def test_the_root_of_the_energy_is_a_norm():
    # AR-57: the triangle inequality, for any two label vectors.
    rng = np.random.default_rng(3)
    H = relu_gram(on_sphere(60, 5))
    for _ in range(5):
        y1, y2 = rng.standard_normal((2, 60))
        both = math.sqrt(label_energy(H, y1 + y2))
        assert both <= math.sqrt(label_energy(H, y1)) + math.sqrt(label_energy(H, y2))


def test_the_kernel_lies_above_each_degree_of_its_series():
    # AR-58, n = 400, d = 10: smallest eigenvalues of H - c_p K^(o p) of .044 to .046.
    x = on_sphere(400, 10)
    H, K = np.asarray(relu_gram(x)), x @ x.T
    coefficients = ntk_series_coefficients(8)
    for p in (1, 2, 4, 6, 8):
        c = coefficients[p]
        assert np.linalg.eigvalsh(H - c * K**p)[0] > 0.03
        # Twice the coefficient is too much for degrees 1 and 2, so that the test can fail.
        assert p > 2 or np.linalg.eigvalsh(H - 2 * c * K**p)[0] < 0


@pytest.mark.parametrize("rank_above", [8, 6])
def test_the_pseudo_inverse_reverses_the_order_on_the_smaller_range(rank_above):
    # AR-59, Lemma E.1: B >= A >= 0 gives A^+ - P_A B^+ P_A >= 0; measured -9e-16 at the least.
    rng = np.random.default_rng(4)
    F = rng.standard_normal((8, 3))
    G = np.concatenate([F, rng.standard_normal((8, rank_above - 3))], axis=1)
    G = G @ rng.standard_normal((rank_above, rank_above))  # so that G G^T overlaps with A
    A = F @ F.T
    B = A + G @ G.T
    P = F @ np.linalg.pinv(F)
    above, below = (np.linalg.pinv(S, rcond=1e-10, hermitian=True) for S in (A, B))
    gap = above - P @ below @ P
    assert np.linalg.eigvalsh((gap + gap.T) / 2)[0] > -1e-10
    assert np.linalg.eigvalsh((gap + gap.T) / 2)[-1] > 1e-3  # not trivially zero


@pytest.mark.parametrize("p", [1, 2, 4, 6])
def test_the_chain_of_the_proof_holds_and_its_end_is_tight(p):
    # AR-72, n = 50, d = 3: the middle member equals the last, because n is above the number of
    # monomials, so that the tensor beta^(x p) lies in the span of the samples'.
    beta = np.random.default_rng(5).standard_normal(3)
    chain = learnable_chain(on_sphere(50, 3), Power(0.7, beta / np.linalg.norm(beta), p))
    assert chain.energy <= chain.degree_energy * (1 + 1e-9)
    assert chain.degree_energy == pytest.approx(chain.bound, rel=1e-6)
    few = learnable_chain(on_sphere(4, 3), Power(0.7, beta / np.linalg.norm(beta), max(p, 2)))
    assert few.degree_energy < 0.99 * few.bound


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Power(1.0, np.ones(2), 0), "`p` must be an integer >= 1, got p=0"),
        (lambda: Power(math.nan, np.ones(2), 1), "`alpha` must be finite"),
        (lambda: Power(1.0, np.array([1.0, np.inf]), 1), "`beta` must be finite"),
        (lambda: Power(1.0, np.ones((2, 2)), 1), r"`beta` must have shape \(d,\)"),
        (lambda: QuadraticForm(np.array([[0.0, 1.0], [0.0, 0.0]])), "`A` must be a symmetric"),
        (lambda: Arctan(axis(2, 2.5)), "`beta` must have a norm of at most 1.99"),
        (lambda: Constant(1.0, d=0), "`d` must be an integer >= 1"),
        (lambda: learnable(), "`functions` must hold at least one function"),
        (
            lambda: learnable(Power(1.0, np.ones(2), 1), Cosine(np.ones(3))),
            r"`functions` must be of one input dimension, got dimensions \[2, 3\]",
        ),
        (
            lambda: learnable_chain(np.eye(2), Power(1.0, np.ones(2), 3)),
            "`power` must have a degree of 1 or an even one, got power.p=3",
        ),
        (
            lambda: learnable_chain(2 * np.eye(2), Power(1.0, np.ones(2), 1)),
            "`x` must have rows of unit norm, got a norm of 2 in row 0",
        ),
    ],
)
def test_bad_functions_are_named(make, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        make()


def test_coefficients_are_those_of_the_taylor_series_of_the_kernel():
    # AR-7: c (pi - arccos c) / (2 pi) = c/4 + c arcsin(c)/(2 pi); arcsin's series by factorials.
    c = ntk_series_coefficients(30)
    for p in range(2, 31, 2):
        l = p // 2 - 1
        arcsin = math.factorial(2 * l) / (4**l * math.factorial(l) ** 2 * (2 * l + 1))
        assert c[p] == pytest.approx(arcsin / (2 * math.pi), rel=1e-13)
    assert c[1] == 0.25
    assert c[0] == 0
    assert not c[3::2].any()
    np.testing.assert_allclose(
        c[[2, 4, 6]], [1 / (2 * np.pi), 1 / (12 * np.pi), 3 / (80 * np.pi)], rtol=1e-14
    )


def test_coefficients_sum_to_one_half_with_a_slow_tail():
    # The tail from degree q on is sum_{2l > q} ~ q^{-1/2}: quadrupling q halves it.
    tails = [0.5 - ntk_series_coefficients(q).sum() for q in (1000, 4000, 16000)]
    assert tails[2] > 0
    np.testing.assert_allclose([tails[0] / tails[1], tails[1] / tails[2]], 2, rtol=1e-3)


def test_sharp_factors_grow_like_the_three_quarter_power():
    # AR-19c: fitted slope 0.757 on p = 50 .. 400.
    p = np.arange(50, 401, 2)
    factor = ntk_series_coefficients(400)[p] ** -0.5
    slope = np.polyfit(np.log(p), np.log(factor), 1)[0]
    assert slope == pytest.approx(0.757, abs=0.002)
    named = ntk_series_coefficients(10)[[1, 2, 4, 6, 8, 10]] ** -0.5
    np.testing.assert_allclose(named, [2, 2.5066, 6.1400, 9.1529, 11.8635, 14.3808], atol=6e-5)


def test_small_degrees_and_bad_ones():
    assert ntk_series_coefficients(0).tolist() == [0.0]
    assert ntk_series_coefficients(1).tolist() == [0.0, 0.25]
    with pytest.raises(ValueError, match="`degree` must be an integer >= 0, got degree=-1"):
        ntk_series_coefficients(-1)
