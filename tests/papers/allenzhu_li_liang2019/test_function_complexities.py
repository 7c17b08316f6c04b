# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from unlazy.activations import activation, polynomial
from unlazy.data import target
from unlazy.papers.allenzhu_li_liang2019 import (
    function_complexity,
    product_concept,
)
from unlazy.papers.shared import chebyshev_series, log_series, taylor_series

LG = {"constant": 1.0, "exponent": 1.75}
SIN3, COS7 = taylor_series("sin", scale=3), taylor_series("cos", scale=7)


@pytest.mark.parametrize(("phi", "coarse", "fine", "c_s"), [
    ([0, 1], 0.40, 0.56, 3.364), ([0, 0, 1], 0.33, 0.65, 6.839), ("sin", 0.45, 0.64, 5.449),
    ("exp", 0.77, 0.94, 10.61), (SIN3, 1.25, 1.59, 127.5), (COS7, 2.79, 3.11, 2.236e4),
])  # fmt: skip
def test_complexities_are_the_recorded_ones(phi, coarse, fine, c_s):
    # LG-5's table, C* = R = 1, to the digits given.
    at = [function_complexity(phi, epsilon=eps, **LG) for eps in (1e-1, 1e-3)]
    assert [round(one.log10_c_eps, 2) for one in at] == [coarse, fine]
    assert at[0].c_s == pytest.approx(c_s, rel=5e-4)


@pytest.mark.parametrize("c", [0.5, 1.0, 3.0])
def test_complexities_are_the_closed_forms(c):
    # RN-13, R = C* = 1, exponent 1.
    def c_s(phi, **options):
        return function_complexity(phi, constant=1.0, **options).c_s

    exp = taylor_series("exp", scale=c)
    assert c_s(exp) - 1 == pytest.approx(c * math.exp(c) + math.exp(c) - 1, rel=1e-12)
    sine, cosine = taylor_series("sin", scale=c), taylor_series("cos", scale=c)
    assert c_s(sine) == pytest.approx(c * math.cosh(c) + math.sinh(c), rel=1e-12)
    assert c_s(cosine) == pytest.approx(c * math.sinh(c) + math.cosh(c), rel=1e-12)


def test_complexities_of_bounded_radius_are_the_closed_forms():
    # RN-13: with exponents 1 and 1.75.
    for phi, first, second in [("tanh", 4.982927, 14.900087), ("sigmoid", 1.097763, 1.633936)]:
        assert function_complexity(phi, constant=1.0).c_s == pytest.approx(first, rel=1e-6)
        assert function_complexity(phi, **LG).c_s == pytest.approx(second, rel=1e-6)
    assert function_complexity("exp", **LG).c_s - 1 == pytest.approx(9.607477, rel=1e-6)
    assert function_complexity("cos", **LG).c_s == pytest.approx(5.158883, rel=1e-6)


def test_the_papers_constant_has_thousands_of_digits():
    # The first half of C_eps(exp, 1) is exp(C*) exactly; the second is summed here by itself.
    found = function_complexity("exp", constant=1e4, epsilon=0.1).log10_c_eps
    assert found >= 1e4 / math.log(10)
    i = np.arange(1, 30_000)
    second = i * (math.log(1e4) + 0.5 * math.log(math.log(10)) - 0.5 * np.log(i)) - gammaln(i + 1.0)
    total = np.logaddexp(1e4, np.logaddexp.reduce([0.0, *second]))
    assert found == pytest.approx(total / math.log(10), rel=1e-13)
    assert function_complexity("exp", constant=1e4).c_eps == math.inf


def test_polynomials_activations_and_logarithms_agree():
    c = [0.3, -1.0, 0.0, 2.0]
    one = function_complexity(c, radius=2.0)
    direct = 2 * (0.3 + 2 * 2 * 1.0 + 4 * 8 * 2.0)
    assert one.c_s == pytest.approx(direct, rel=1e-13)
    assert function_complexity(polynomial(c), radius=2.0).log10_c_eps == one.log10_c_eps
    from_logs = log_series(lambda i: -gammaln(i + 1.0))
    exp = function_complexity("exp", epsilon=1e-3)
    assert function_complexity(from_logs, epsilon=1e-3).log10_c_eps == exp.log10_c_eps
    assert function_complexity(activation("exp"), epsilon=1e-3).c_s == exp.c_s
    assert function_complexity(c, radius=0).c_s == pytest.approx(0.6)
    assert function_complexity("exp", radius=0).c_eps == pytest.approx(2.0)
    both = function_complexity("sin", COS7)
    assert both.c_s == function_complexity(COS7).c_s
    assert function_complexity([0.0]).c_s == 0.0


def test_the_series_is_summed_past_gaps_and_far_peaks():
    # Every hundredth degree only: consecutive refers to the terms that are there.
    def sparse(i):
        return np.where(i % 100 == 0, -gammaln(i / 100 + 1.0), -math.inf)

    value = function_complexity(log_series(sparse), constant=1.0, exponent=0.0).c_s
    assert value == pytest.approx(math.e, rel=1e-13)
    far = function_complexity(taylor_series("exp", scale=2000), constant=1.0, exponent=0.0)
    assert far.log10_c_s == pytest.approx(2000 / math.log(10), rel=1e-13)


@pytest.mark.parametrize("phi", [[0, 1], [0, 0, 1], "sin", SIN3, [0, 2, 0, -1, 4]])
@pytest.mark.parametrize("constant", [10.0, 100.0])
def test_the_two_complexities_are_ordered_where_the_paper_says_so(phi, constant):
    # LG-5: C_s <= C_eps with c_0 = 0, C* >= 10, eps <= 3e-3; false for the linear term at .1.
    low = function_complexity(phi, epsilon=3e-3, constant=constant, exponent=1.75)
    assert low.log10_c_s <= low.log10_c_eps
    linear = function_complexity([0, 1], epsilon=0.1, constant=constant, exponent=1.75)
    assert linear.log10_c_s > linear.log10_c_eps


def test_series_that_diverge_are_refused_and_polynomials_for_them_are_not():
    # LG-25.
    with pytest.raises(ValueError, match=r"`radius` must be below 0.19635.*chebyshev_series"):
        function_complexity(taylor_series("tanh", scale=8))
    beyond = function_complexity("tanh", constant=2.0)
    assert beyond.log10_c_eps == math.inf
    assert "C_eps of tanh diverges at 2" in (beyond.reason or "")
    assert math.isfinite(beyond.c_s)
    fit = chebyshev_series(lambda z: np.tanh(8 * z), 41)
    powers = np.abs(fit.series.taylor(41))
    direct = np.sum(np.arange(1, 43) ** 1.75 * powers)
    assert function_complexity(fit, **LG).c_s == pytest.approx(direct, rel=1e-12)
    with pytest.raises(ValueError, match="must be smooth and without a shift"):
        function_complexity(activation("relu"))
    with pytest.raises(ValueError, match="settle within"):
        function_complexity(log_series(lambda i: np.zeros(len(i))), constant=1.0)


@pytest.mark.parametrize("name", ["erf", "gelu"])
def test_a_series_that_is_too_long_is_infinite_with_a_reason(name):
    found = function_complexity(name, constant=1e4)
    assert found.log10_c_eps == math.inf
    assert f"C_eps of {name} at 10000 does not settle" in (found.reason or "")
    # C_s has the constant as a factor only.
    assert found.c_s == pytest.approx(1e4 * function_complexity(name, constant=1.0).c_s)
    both = function_complexity("tanh", name, constant=1e4)
    assert "C_eps of tanh diverges" in (both.reason or "")


def test_what_is_no_smooth_function_of_one_variable_is_told_what_to_do(no_shape_checker):
    for name in ("relu", "relu3"):
        with pytest.raises(ValueError, match=f"{name} with shift.*papers.shared.chebyshev_series"):
            function_complexity(name)
    composed: Any = target("composed-sines")
    with pytest.raises(
        TypeError, match=r"got ComposedProduct.* by product_concept\(\.\.\.\)\.complexity\(\)"
    ):
        function_complexity(composed)
    concept: Any = product_concept(composed)
    with pytest.raises(TypeError, match=r"got ThreeLayerConcept.* by complexity\(\)"):
        function_complexity(concept)


def test_bad_numbers_are_refused(no_shape_checker):
    for options, match in [
        ({"radius": -1.0}, "`radius` must be a number >= 0"),
        ({"epsilon": 1.0}, r"`epsilon` must be in \(0, 1\)"),
        ({"constant": 0.0}, "`constant` must be a positive number"),
        ({"exponent": "1"}, "`exponent` must be a finite number, got exponent='1'"),
        ({"epsilon": "x"}, "`epsilon` must be a finite number"),
        ({"radius": math.inf}, "`radius` must be a number >= 0"),
    ]:
        with pytest.raises(ValueError, match=match):
            function_complexity("sin", **options)
    with pytest.raises(ValueError, match="at least one"):
        function_complexity()


def test_numbers_of_numpy_are_numbers():
    # Powers of two, which float32 holds exactly.
    options = {"radius": 0.5, "epsilon": 0.25, "constant": 2.0, "exponent": 1.5}
    single = {name: np.float32(value) for name, value in options.items()}
    assert function_complexity("sin", **single) == function_complexity("sin", **options)
