# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import pytest

from unlazy.papers.allenzhu_li_liang2019 import three_layer_theory


def test_the_table_is_its_formulas():
    # LG-18 at m1 = 10^4, m2 = 10^5, C0 = 3, eps0 = .01.
    theory = three_layer_theory((10**4, 10**5), epsilon=0.01, C0=3.0)
    m1, m2, eps = 1e4, 1e5, 0.01
    expected = {
        "tau_w_inf": 3 / m1**0.995,
        "tau_v_inf": m1**0.495 / m2,
        "target_w": 3 / (eps**0.25 * m1**0.745),
        "target_v": m1**0.495 / (eps**0.5 * m2**0.5),
        "tau_w": m1**-0.73,
        "tau_v": m1**0.499 / m2**0.5,
        "sigma_w": m1**-0.985,
        "sigma_v": m2**-0.51,
    }
    for name, value in expected.items():
        assert getattr(theory, name) == pytest.approx(value, rel=1e-12)
    assert theory.lam_w == pytest.approx(2 / expected["target_w"] ** 4, rel=1e-12)
    assert theory.lam_v == pytest.approx(2 / expected["target_v"] ** 2, rel=1e-12)


@pytest.mark.parametrize("widths", [(100, 100), (500, 4000), (10**6, 10**7)])
def test_the_penalty_of_the_good_weights_is_of_the_order_of_the_error(widths):
    # LG-18: lam so that R <= eps0 at W*, V*. With rows as long as allowed R is 4 eps0 for every
    # width: an order, as the constants of the table are.
    m1, m2 = widths
    theory = three_layer_theory(widths, epsilon=0.03, C0=7.0)
    rows_w, rows_v = m1 * theory.tau_w_inf**4, m2 * theory.tau_v_inf**2
    assert theory.lam_w * rows_w + theory.lam_v * rows_v == pytest.approx(4 * 0.03, rel=1e-10)


@pytest.mark.parametrize("m", [2, 100, 10**4, 10**8, 10**300, 10**1000])
@pytest.mark.parametrize("wider", [1, 10])
def test_the_ranges_hold_at_every_width_and_the_errors_at_none_that_is_real(m, wider):
    # LG-18: the first five constraints hold as soon as m2 >= m1; of the others, m1^-.005 << eps.
    theory = three_layer_theory((m, wider * m), epsilon=0.01)
    assert all(condition.holds for condition in theory.conditions[:5])
    assert theory.valid == (m > 10**400)


def test_the_width_that_suffices_is_a_power_of_two_hundred():
    # m1 tau_w_inf^2/sigma_w = C0^2 m1^-.005 <= eps: (1/eps)^200 for C0 = 1, 10^400 for eps = .01;
    # C0 = 10 and a polylogarithm of 10 make it (10^5)^200.
    for C0, polylog, digits in ((1.0, 1.0, 400), (10.0, 10.0, 1000)):
        options: dict[str, Any] = {"epsilon": 0.01, "C0": C0, "polylog": polylog}
        below, above = (three_layer_theory((10**d,) * 2, **options) for d in (digits - 1, digits))
        assert [c.text for c in below.failed] == ["polylog m1 tau_w_inf^2/sigma_w <= epsilon"]
        assert below.failed[0].excess == pytest.approx(10**0.005, rel=1e-9)
        assert above.valid


def test_every_condition_can_fail():
    good: dict[str, Any] = {"widths": (10**450, 10**450), "epsilon": 0.01}
    assert three_layer_theory(**good).valid
    small: dict[str, Any] = {"widths": (100, 100), "epsilon": 0.5}
    breaks: dict[str, dict[str, Any]] = {
        "m1^(-3/2) <= sigma_w": small | {"sigma_w": 9e-4},
        "sigma_w <= tau_w m1^(-1/4)": small | {"sigma_w": 0.02},
        "sigma_v <= m2^(-1/2)": small | {"sigma_v": 0.11},
        "tau_v <= 1": small | {"tau_v": 1.1},
        "tau_w <= m1^(-9/16)": small | {"tau_w": 0.08},
        "polylog m1 tau_w_inf^2/sigma_w <= epsilon": small,
        "polylog m2 tau_w_inf^2/sigma_v <= epsilon": good | {"widths": (10**450, 10**620)},
        "polylog (m2/m1) tau_v_inf^2/sigma_v <= epsilon": small | {"polylog": 100.0},
        "polylog tau'_w <= tau_w": small | {"C0": 2.0},
        "polylog tau'_v <= tau_v": small | {"tau_v": 0.9},
    }
    assert [c.text for c in three_layer_theory(**good).conditions] == list(breaks)
    for text, setting in breaks.items():
        assert text in [c.text for c in three_layer_theory(**setting).failed], text


def test_a_practical_setting_is_told_what_it_fails():
    # LG-22's defaults, m1 = m2 = 64: sigma_w = m^-.99, sigma_v = m^-.51.
    theory = three_layer_theory((64, 64), epsilon=0.1, sigma_w=64**-0.99, sigma_v=64**-0.51)
    assert len(theory.failed) == 5
    assert theory.failed[0].text == "polylog m1 tau_w_inf^2/sigma_w <= epsilon"
    assert theory.failed[0].excess == pytest.approx(64 ** (1 - 1.99 + 0.99) / 0.1, rel=1e-9)
    table = str(theory).splitlines()
    assert len(table) == 1 + len(theory.conditions)
    assert sum("fails by" in line for line in table) == 5
    assert table[0].startswith("tau_w_inf 0.016, tau_v_inf 0.122")


def test_widths_beyond_floats_have_finite_conditions():
    theory = three_layer_theory((10**2000, 10**2000), epsilon=0.01)
    assert theory.lam_w == math.inf
    assert all(math.isfinite(c.excess) for c in theory.conditions)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"widths": (0, 3)}, "`widths` must be an integer >= 1"),
        ({"epsilon": 1.0}, r"`epsilon` must be in \(0, 1\)"),
        ({"C0": 0.0}, "`C0` must be a positive number"),
        ({"sigma_v": -1.0}, "`sigma_v` must be a positive number"),
        ({"polylog": 0.0}, "`polylog` must be a positive number"),
    ],
)
def test_bad_arguments_are_named(change, message):
    settings: dict[str, Any] = {"widths": (10, 10), "epsilon": 0.1}
    with pytest.raises(ValueError, match=message):
        three_layer_theory(**(settings | change))
