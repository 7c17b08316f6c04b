# SPDX-License-Identifier: Apache-2.0
import itertools
import math
from fractions import Fraction

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

import unlazy as ul
from unlazy.core.errors import UnknownNameError
from unlazy.escape import matched_moments

FAMILIES = ["chebyshev", "equispaced"]


def gap(pair, j):
    return pair.plus.moment(j) - pair.minus.moment(j)


def complete_homogeneous(degree, values):
    return sum(math.prod(c) for c in itertools.combinations_with_replacement(values, degree))


@pytest.mark.parametrize("nodes", FAMILIES)
@pytest.mark.parametrize("order", range(1, 13))
def test_moments_agree_below_the_order_and_differ_by_one_there(order, nodes):
    pair = matched_moments(order, nodes)
    for law in pair:
        assert math.fsum(law.weights) == pytest.approx(1, abs=1e-15)
        assert np.all(law.weights > 0)
    tolerance = 3e-15 if order <= 5 else 2e-14 * 2 ** max(0, order - 8)  # moments grow like 2^k
    for j in range(order):
        assert gap(pair, j) == pytest.approx(0, abs=tolerance)
    assert gap(pair, order) == pytest.approx(1, abs=tolerance)


@pytest.mark.parametrize("nodes", ["equispaced", (0, 1, 3, 7), (Fraction(1, 3), 2, -1.5, 0)])
def test_rational_nodes_match_the_moments_with_no_rounding_at_all(nodes):
    plus, minus = matched_moments(3, nodes)
    assert plus.exact is not None
    assert minus.exact is not None
    # In units of the nodes: below the order equal, at it different by c^-k = 1/M.
    totals = [
        sum(p * t**j for t, p in plus.exact) - sum(p * t**j for t, p in minus.exact)
        for j in range(4)
    ]
    assert totals[:3] == [0, 0, 0]
    ratio = plus.support[-1] / float(plus.exact[-1][0])
    assert float(totals[3]) * ratio**3 == pytest.approx(1, abs=1e-14)
    assert sum(p for _, p in plus.exact) == sum(p for _, p in minus.exact) == 1


@pytest.mark.parametrize("nodes", [*FAMILIES, (0, 1, 3), (-2.5, 0.1, 7)])
def test_higher_moments_are_complete_homogeneous_polynomials_of_the_values(nodes):
    pair = matched_moments(2, nodes)
    values = np.concatenate([pair.plus.support, pair.minus.support])
    for j in range(3, 7):
        assert gap(pair, j) == pytest.approx(
            complete_homogeneous(j - 2, values), rel=1e-10, abs=1e-13
        )


@pytest.mark.parametrize("nodes", FAMILIES)
@pytest.mark.parametrize("order", [2, 3, 4, 5])
def test_symmetric_nodes_have_no_next_moment(order, nodes):
    assert gap(matched_moments(order, nodes), order + 1) == pytest.approx(0, abs=1e-14)


def test_order_two_is_the_sign_trick_of_the_paper():
    for nodes in FAMILIES:
        plus, minus = matched_moments(2, nodes)
        np.testing.assert_array_equal(sorted(plus.support), [-1, 1])
        np.testing.assert_array_equal(plus.weights, [0.5, 0.5])
        np.testing.assert_array_equal(minus.support, [0])


def test_order_three_equispaced_is_the_law_of_the_record():
    # BL-41: z+ in c {3/2 (1/4), -1/2 (3/4)}, z- = -z+ in law, c = (2/3)^(1/3).
    plus, minus = matched_moments(3, "equispaced")
    c = (2 / 3) ** (1 / 3)
    np.testing.assert_allclose(plus.support, [-c / 2, 1.5 * c], rtol=1e-15)
    assert plus.exact == ((Fraction(-1, 2), Fraction(3, 4)), (Fraction(3, 2), Fraction(1, 4)))
    np.testing.assert_allclose(sorted(minus.support), sorted(-plus.support), rtol=1e-15)


@pytest.mark.parametrize(
    ("nodes", "largest"),
    [("chebyshev", [1, 1.260, 1.414, 1.516]), ("equispaced", [1, 1.310, 1.520, 1.671])],
)
def test_the_supports_have_the_recorded_sizes(nodes, largest):  # BL-42
    for order, value in zip(range(2, 6), largest, strict=True):
        pair = matched_moments(order, nodes)
        assert max(np.max(np.abs(law.support)) for law in pair) == pytest.approx(value, abs=5e-4)


def test_no_nodes_beat_the_support_of_chebyshev(getkey):
    best = max(np.max(np.abs(law.support)) for law in matched_moments(4))
    for row in np.asarray(jr.normal(getkey(), (200, 5)), np.float64):
        assert max(np.max(np.abs(law.support)) for law in matched_moments(4, row)) > best


def test_chebyshev_is_the_divided_difference_at_its_nodes():
    # The closed form against the general construction, at nodes that are floats.
    closed, general = matched_moments(5), matched_moments(5, np.cos(np.arange(6) * np.pi / 5))
    for a, b in zip(closed, general, strict=True):
        order = np.argsort(a.support)
        np.testing.assert_allclose(a.support[order], b.support, rtol=1e-13)
        np.testing.assert_allclose(a.weights[order], b.weights, rtol=1e-13)


def test_samples_have_the_law(getkey):
    law = ul.escape.matched_moments(3, "equispaced").plus
    draws = np.asarray(law.sample((100, 200), key=getkey()), np.float64)
    share = np.mean(draws > 0)
    # A share of 1/4 from 20000 draws has standard deviation .0031; 4.5 of them fail with 7e-6.
    assert share == pytest.approx(0.25, abs=4.5 * 0.0031)
    np.testing.assert_allclose(np.unique(draws), law.support, rtol=1e-6)


def test_stratified_draws_take_every_value_as_often_as_its_weight_says(getkey):
    law = matched_moments(5).plus
    for count in (1, 7, 1000):
        draws = np.asarray(law.stratified(count, key=getkey()), np.float64)
        for value, weight in zip(law.support, law.weights, strict=True):
            assert abs(np.sum(np.isclose(draws, value)) - count * weight) < 1 + 1e-4
    # Each draw alone has the law: the first of three, over 1000 keys. Standard deviation of a share
    # below .0159; 4.5 of them over three values fail with 2e-5.
    first = jax.jit(jax.vmap(lambda key: law.stratified(3, key=key)[0]))(jr.split(getkey(), 1000))
    for value, weight in zip(law.support, law.weights, strict=True):
        assert np.mean(np.isclose(first, value)) == pytest.approx(weight, abs=4.5 * 0.0159)


def test_samples_follow_the_precision_in_force(getkey):
    law = matched_moments(3).plus
    assert law.sample((2,), key=getkey()).dtype == jnp.float32
    with jax.enable_x64(True):
        draws = law.sample((50,), key=getkey())
        assert set(np.asarray(draws)) <= set(law.support)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="`order` must be an integer >= 1, got order=0"):
        matched_moments(0)
    with pytest.raises(ValueError, match="`nodes` must be 3 distinct numbers for order=2"):
        matched_moments(2, (0, 1, 1))
    with pytest.raises(ValueError, match="`nodes` must be 3 distinct numbers for order=2"):
        matched_moments(2, (0, 1))
    with pytest.raises(ValueError, match="`nodes` must be finite"):
        matched_moments(1, (0, math.nan))
    with pytest.raises(UnknownNameError, match="Did you mean 'chebyshev'"):
        matched_moments(2, "chebishev")
    with pytest.raises(ValueError, match="`order` must be such that float64 can match the moments"):
        matched_moments(40)
