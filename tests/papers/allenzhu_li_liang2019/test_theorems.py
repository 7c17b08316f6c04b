# SPDX-License-Identifier: Apache-2.0
import math

import jax
import numpy as np
import pytest

from unlazy.data import ComposedProduct
from unlazy.papers.allenzhu_li_liang2019 import (
    ThreeLayerConcept,
    TwoLayerConcept,
    function_complexity,
    product_concept,
    three_layer_rates,
    two_layer_rates,
)
from unlazy.papers.shared import chebyshev_series, taylor_series

LG = {"constant": 1.0, "exponent": 1.75}
SIN3, COS7 = taylor_series("sin", scale=3), taylor_series("cos", scale=7)


def test_rates_of_two_layer_learners_are_their_monomials():
    e = np.eye(4)
    concept = TwoLayerConcept(np.ones((2, 3)), ["sin"] * 3, e[:3], e[[3, 3, 3]])
    rates = two_layer_rates(concept, epsilon=1e-3, constant=1.0)
    c_s = function_complexity("sin", **LG).c_s
    assert 10**rates.log10_steps == pytest.approx(c_s**2 * 2**3 * 3**2 / 1e-6, rel=1e-12)
    assert rates.admissible == (3 * 2 * c_s < 1000)
    assert not two_layer_rates(concept, epsilon=0.5, constant=1.0).admissible


def test_rates_of_three_layer_learners_are_their_monomials():
    concept = product_concept(ComposedProduct("sines"))
    rates = three_layer_rates(concept, epsilon=0.01, constant=1.0)
    # By hand: phi in {sin 3z, cos 7z}, Phi = 4 - 4 sqrt(3) z + 3 z^2, p1 = k = 1, p2 = 3.
    inner = function_complexity(SIN3, COS7, **LG).c_s
    Phi = [4.0, -4 * math.sqrt(3), 3.0]
    outer = function_complexity(Phi, radius=3 * inner, **LG).c_s
    eps = 0.01 / (9 * outer * inner**2)
    assert 10**rates.log10_epsilon == pytest.approx(eps, rel=1e-9)
    c_eps = function_complexity(SIN3, COS7, epsilon=eps, **LG).c_eps
    top = function_complexity(Phi, radius=math.sqrt(3) * c_eps, epsilon=eps, **LG).c_eps
    C0 = top * c_eps * math.sqrt(3)
    assert 10**rates.log10_C0 == pytest.approx(C0, rel=1e-9)
    assert 10**rates.log10_samples == pytest.approx((C0 / 0.01) ** 2, rel=1e-8)
    assert rates.log10_samples_first(100, 10.0) == pytest.approx(4.0)


def test_rates_out_of_range_are_refused():
    concept = product_concept(ComposedProduct("sines"))
    with pytest.raises(ValueError, match=r"settle within|range of floats"):
        three_layer_rates(
            ThreeLayerConcept.sample(4, ["exp"], ["sin"], ["cos"], key=jax.random.key(0)),
            epsilon=0.01,
            constant=1e4,
        )
    with pytest.raises(ValueError, match=r"`epsilon` must be in \(0, 1\)"):
        three_layer_rates(concept, epsilon=2.0)


def test_infinite_rates_have_a_reason():
    key = jax.random.key(0)
    three = ThreeLayerConcept.sample(4, ["identity"], ["tanh"], ["tanh"], key=key)
    two = TwoLayerConcept.sample(4, ["tanh"], key=key)
    for rates in (three_layer_rates(three, epsilon=0.01), two_layer_rates(two, epsilon=0.01)):
        assert "C_eps of tanh diverges at 2" in (rates.reason or "")
    assert three_layer_rates(three, epsilon=0.01).log10_C0 == math.inf
    assert two_layer_rates(two, epsilon=0.01).log10_c_eps == math.inf
    for rates in (
        three_layer_rates(three, epsilon=0.01, constant=1.0),
        two_layer_rates(two, epsilon=0.01, constant=1.0),
    ):
        assert rates.reason is None


def test_an_outer_series_that_diverges_is_told_apart_from_a_large_constant():
    def concept(outer):
        return ThreeLayerConcept.sample(4, [outer], ["sin"], ["sin"], key=jax.random.key(0))

    found = concept("tanh").complexity(epsilon=0.01)
    assert found.log10_outer_c_s == math.inf
    assert "C_s of the outer tanh diverges at 10.8972" in (found.reason or "")
    for constant in (1.0, 2.0, 1e4):
        with pytest.raises(ValueError, match=r"`concept` must .*outer tanh diverges.*chebyshev_se"):
            three_layer_rates(concept("tanh"), epsilon=0.01, constant=constant)
    fit = chebyshev_series(np.tanh, 9)
    rates = three_layer_rates(concept(fit), epsilon=0.01)
    assert rates.reason is None
    assert math.isfinite(rates.log10_C0)
    narrow = ThreeLayerConcept.sample(
        4, ["identity"], [taylor_series("tanh", scale=2)], ["sin"], key=jax.random.key(0)
    )
    with pytest.raises(ValueError, match="C_s of tanh diverges at 1: its radius"):
        three_layer_rates(narrow, epsilon=0.01)
