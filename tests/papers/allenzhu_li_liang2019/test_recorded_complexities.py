# SPDX-License-Identifier: Apache-2.0
"""Where the two complexities of LG-5 are ordered, where not, and by how much at most."""

import math
from typing import Any

import pytest

from unlazy.papers.allenzhu_li_liang2019 import function_complexity
from unlazy.papers.shared import taylor_series

LG = {"constant": 1.0, "exponent": 1.75}
SIN3, COS7 = taylor_series("sin", scale=3), taylor_series("cos", scale=7)
ROWS = {"z": [0, 1], "z^2": [0, 0, 1], "sin": "sin", "exp": "exp", "sin 3z": SIN3, "cos 7z": COS7}


@pytest.mark.parametrize("name", ROWS)
def test_the_order_is_false_for_a_small_constant(name):
    # LG-5: C_s <= C_eps is false for C* = 1 and eps = .1 in every row of the table, and at 1e-3 in
    # every row but that of z.
    coarse, fine = (function_complexity(ROWS[name], epsilon=eps, **LG) for eps in (0.1, 1e-3))
    assert coarse.c_s > 1.3 * coarse.c_eps
    assert (fine.c_s > fine.c_eps) == (name != "z")


@pytest.mark.parametrize("constant", [1.0, 10.0, 1e4])
def test_the_linear_and_the_constant_term_break_the_order_as_recorded(constant):
    # LG-5: the linear term needs 1 + sqrt(log(1/eps)) >= 2^1.75, that is eps <= 3.7e-3, for every
    # C*; the constant one has C* |c_0| against 2 |c_0|, for every eps.
    threshold = math.exp(-((2**1.75 - 1) ** 2))
    assert threshold == pytest.approx(3.7e-3, abs=5e-5)
    below, above = (
        function_complexity([0, 1], epsilon=eps, constant=constant, exponent=1.75)
        for eps in (0.999 * threshold, 1.001 * threshold)
    )
    assert below.log10_c_s < below.log10_c_eps
    assert above.log10_c_s > above.log10_c_eps
    for eps in (0.1, 1e-6):
        flat = function_complexity([0.7], epsilon=eps, constant=constant, exponent=1.75)
        assert flat.c_s == pytest.approx(constant * 0.7)
        assert flat.c_eps == pytest.approx(2 * 0.7)
        assert (flat.c_s > flat.c_eps) == (constant > 2)


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("constant", [1.0, 3.0, 10.0])
def test_the_larger_complexity_is_at_most_the_smaller_at_a_larger_radius(name, constant):
    # LG-5: C_eps(phi, R) <= C_s(phi, O(R)) poly(1/eps). With constants: (L/i)^(i/2) is at most
    # exp(L/(2e)), so that C_eps(phi, R) <= (1 + eps^(-1/(2e))) C_s(phi, C* R) / C*.
    options: dict[str, Any] = {"constant": constant, "exponent": 1.75}
    for radius in (0.5, 1.0, 2.0):
        wide = function_complexity(ROWS[name], radius=constant * radius, **options).log10_c_s
        for eps in (0.5, 1e-2, 1e-8, 1e-100):
            found = function_complexity(ROWS[name], radius=radius, epsilon=eps, **options)
            power = math.log10(1 + eps ** (-1 / (2 * math.e)))
            assert found.log10_c_eps <= wide + power - math.log10(constant) + 1e-12


@pytest.mark.parametrize("i", [1, 2, 7])
def test_the_power_of_epsilon_is_attained_by_a_monomial(i):
    # At log(1/eps) = e i, where (L/i)^(i/2) is largest; the other factor of C_s left out.
    eps = math.exp(-math.e * i)
    found = function_complexity([0] * i + [1], epsilon=eps, constant=1.0, exponent=0.0)
    assert found.c_s == pytest.approx(1.0)
    assert found.c_eps == pytest.approx(1 + eps ** (-1 / (2 * math.e)), rel=1e-12)
