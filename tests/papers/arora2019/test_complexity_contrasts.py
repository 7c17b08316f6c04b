# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.papers.allenzhu_li_liang2019 import function_complexity
from unlazy.papers.arora2019 import (
    Arctan,
    Constant,
    Cosine,
    Power,
    QuadraticForm,
    complexity_contrast,
)


def along(b, d=3):
    direction = np.array([1.0, -2.0, 2.0]) / 3
    return b * direction[:d]


@pytest.mark.parametrize(
    "function", [Arctan(along(0.7)), Cosine(along(1.7)), Power(-3.0, along(1.2), 4)]
)
def test_complexities_are_the_sums_over_the_powers_of_the_function(function):
    # The powers of a target function are those behind the bounds; the profile is another route.
    found = complexity_contrast(function, constant=1.3, epsilon=0.2)
    terms = function.powers()
    c_s = 1.3 * np.sum((terms.p + 1.0) ** 1.75 * np.abs(terms.alpha) * _sizes(terms))
    assert found.complexity.c_s == pytest.approx(c_s, rel=1e-9)
    spread = math.sqrt(math.log(1 / 0.2)) / np.sqrt(terms.p)
    weights = 1.3**terms.p * (1 + spread**terms.p)
    c_eps = np.sum(weights * np.abs(terms.alpha) * _sizes(terms))
    assert found.complexity.c_eps == pytest.approx(c_eps, rel=1e-9)


def _sizes(terms):
    return np.linalg.norm(terms.beta, axis=1) ** terms.p


def test_profiles_are_the_functions_along_their_direction():
    # The sign is lost in logarithms, so coefficients are compared in size, by differences of the
    # values: phi(h) = c_2 h^2 + c_4 h^4 + O(h^6).
    u, h = along(1.0), 0.05
    for function in (Arctan(along(1.5)), Cosine(along(1.5))):
        near, far = (float(function(t * u[None, :])[0]) for t in (h, 2 * h))
        c4 = (far - 4 * near) / (12 * h**4)
        c2 = (16 * near - far) / (12 * h**2)
        logs = function.profile().log_coefficients(np.arange(6))
        assert np.exp(logs[2]) == pytest.approx(abs(c2), rel=1e-4)
        assert np.exp(logs[4]) == pytest.approx(abs(c4), rel=3e-2)
        assert np.all(np.isinf(logs[[0, 1, 3, 5]]))


def test_arctan_has_no_width_complexity_once_the_constant_passes_its_radius():
    # Example 6.4: the series has radius 2. The energy is at most 4 b^2 whatever the constant.
    for b in (0.25, 0.5, 1.0):
        function = Arctan(along(b))
        below = complexity_contrast(function, constant=1.98 / b)
        beyond = complexity_contrast(function, constant=2.02 / b)
        assert math.isfinite(below.complexity.c_eps)
        assert beyond.complexity.c_eps == math.inf
        assert "z arctan(z/2)" in str(beyond.complexity.reason)
        assert math.isfinite(beyond.complexity.c_s)
        assert beyond.bound.sharp <= beyond.bound.paper <= 4 * b**2
    # The cosine is entire: finite, but exponential in the constant, C_eps ~ e^(C* b).
    cosine = complexity_contrast(Cosine(along(1.0)), constant=100.0, epsilon=0.9)
    assert cosine.complexity.log10_c_eps == pytest.approx(100 / math.log(10), rel=0.02)
    assert cosine.bound.tensor < 1.3


def test_small_linear_forms_cost_both_papers_the_square_of_their_norm():
    # The quadratic term alone is left: C_s / (C* sqrt(M)) tends to 3^1.75 / sqrt(2 pi).
    found = [complexity_contrast(Arctan(along(b)), constant=10.0) for b in (1e-3, 2e-3)]
    ratio = found[0].complexity.c_s / (10 * found[0].bound.sharp)
    assert ratio == pytest.approx(3**1.75 / math.sqrt(2 * math.pi), rel=1e-5)
    assert found[1].complexity.c_s / found[0].complexity.c_s == pytest.approx(4, rel=1e-5)
    assert found[1].bound.sharp / found[0].bound.sharp == pytest.approx(4, rel=1e-5)


def test_odd_powers_are_the_other_side_of_the_contrast():
    found = complexity_contrast(Power(2.0, along(1.0), 3), constant=5.0)
    assert found.bound.sharp == math.inf
    assert found.complexity.c_s == pytest.approx(5 * 4**1.75 * 2)
    # The calculator of the other paper says the same of the same polynomial.
    same = function_complexity(np.array([0.0, 0, 0, 2]), constant=5.0, exponent=1.75)
    assert found.complexity.c_eps == pytest.approx(same.c_eps)
    zero = complexity_contrast(Arctan(np.zeros(2)))
    assert zero.complexity.c_s == zero.bound.sharp == 0


@pytest.mark.parametrize("function", [Constant(1.0, d=2), QuadraticForm(np.eye(2))])
def test_sums_are_refused(function, no_shape_checker):
    with pytest.raises(TypeError, match="`function` must be a function of one linear form"):
        complexity_contrast(function)
