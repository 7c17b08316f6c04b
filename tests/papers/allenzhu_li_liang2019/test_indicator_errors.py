# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest
from scipy.special import ndtr

from unlazy.papers.allenzhu_li_liang2019 import indicator_error, indicator_function
from unlazy.papers.allenzhu_li_liang2019.indicator_errors import (
    bounded_indicator,
    indicator_bias,
    indicator_means,
    indicator_table,
)
from unlazy.papers.shared.smooth_functions import as_series

FUNCTIONS = {
    "identity": "identity",
    "sin": "sin",
    "tanh": "tanh",
    "exp": "exp",
    "square": [0, 0, 1.0],
    "cube": [0, 0, 0, 1.0],
    "mixed": [0.3, -1.0, 0.5, 0.2],
}
REACH = math.sqrt(0.75)


def built(h, z):
    """E[1{<w, x> + b >= 0} h(<w, w*>, b)] by plain trapezoids over both variables."""
    a = np.linspace(-9, 9, 721)
    b = np.linspace(-9, 9, 181) if h.method != "bias-free" else np.zeros(1)
    density = np.exp(-(a**2) / 2) / math.sqrt(2 * math.pi) * (a[1] - a[0])
    if h.method == "bias-free":  # b joins the rest of the pre-activation
        passed = ndtr(a * z / math.sqrt(2 - z**2))
        return float(np.sum(density * passed * h(a, np.zeros_like(a))))
    weights = np.exp(-(b**2) / 2) / math.sqrt(2 * math.pi) * (b[1] - b[0])
    A, B = np.broadcast_arrays(a[:, None], b[None, :])
    passed = ndtr((A * z + B) / math.sqrt(1 - z**2))
    return float(density @ (passed * h(A, B)) @ weights)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_function_that_is_built_keeps_the_error_asked_for(name):
    phi = as_series(FUNCTIONS[name])
    h = bounded_indicator(phi, error=0.05, reach=REACH)
    z = np.linspace(-REACH, REACH, 3)
    found = np.array([built(h, float(point)) for point in z])
    largest = np.max(np.abs(phi(np.linspace(-REACH, REACH, 101))))
    assert np.max(np.abs(found - phi(z))) < 0.0501 * largest
    assert indicator_bias(h, reach=REACH) <= 0.05
    assert math.isfinite(h.bound)
    # One limit lower would not do.
    lower = h.clipped(float(h.limits[0]) - 0.125)
    assert indicator_bias(lower, reach=REACH) > 0.05


def test_a_fixed_limit_builds_other_functions():
    # A limit of 2 serves the identity, and neither sin nor tanh nor the cube.
    biases = {
        name: indicator_bias(bounded_indicator(as_series(FUNCTIONS[name]), error=0.05, limit=2.0))
        for name in ("identity", "sin", "tanh", "cube")
    }
    assert biases["identity"] < 0.05
    assert biases["sin"] > 0.15
    assert biases["tanh"] > 0.3
    assert biases["cube"] > 0.7


def test_smaller_errors_take_higher_limits_and_bounds():
    found = [bounded_indicator(as_series("sin"), error=e, reach=REACH) for e in (0.1, 0.01, 1e-4)]
    assert found[0].limits[0] < found[1].limits[0] < found[2].limits[0]
    assert found[0].bound < found[1].bound < found[2].bound
    assert indicator_bias(found[2], reach=REACH) <= 1e-4


@pytest.mark.parametrize(("phi", "method"), [("exp", "minimum-norm"), ("sin", "bias-free")])
@pytest.mark.parametrize("reach", [0.3, 0.99, 1.0])
def test_the_table_gives_what_the_quadrature_gives(phi, method, reach):
    h, z = indicator_function(phi, method=method), np.linspace(-reach, reach, 3)
    table = indicator_table(h, z, 0.125)
    for limit in (1.5, 4.0):
        means = indicator_means(h.clipped(limit), z)
        # At +-1 the step of the indicator is sharp, which only the quadrature resolves.
        tolerance = 1e-11 if reach < 1 else 2e-3
        np.testing.assert_allclose(table.means(h.clipped(limit)), means, atol=tolerance)


def test_without_a_bias_the_two_quadratures_agree():
    # The quadrature in both variables knows nothing of the Gaussian that b joins.
    h = indicator_function("sin", method="bias-free").clipped(2.0)
    z = np.array([-0.9, 0.2, 0.7])
    found = indicator_error(h, z).values
    by_hand = np.array([built(h, float(point)) for point in z])
    np.testing.assert_allclose(found, by_hand, atol=1e-4)  # of the trapezoids, at the clip
    rng = np.random.default_rng(0)
    a, g, b = rng.standard_normal((3, 400_000))
    for point, value in zip(z, found, strict=True):
        drawn = (a * point + math.sqrt(1 - point**2) * g + b >= 0) * h(a, b)
        # Five standard errors: fails with probability 6e-7.
        assert abs(drawn.mean() - value) < 5 * drawn.std() / math.sqrt(len(a))


def test_a_bias_is_that_of_the_function_asked_for():
    h = indicator_function("sin", method="bias-free")
    assert indicator_bias(h) < 1e-9
    assert indicator_bias(h, as_series("tanh")) > 0.05
    assert indicator_bias(h, as_series([0.0])) == math.inf
    assert indicator_bias(indicator_function([0.0])) == 0.0
    # A series cut short is a bias as well: here 1/3! + 1/5! - ... at 1.
    short = indicator_function("sin", method="bias-free", degree=1)
    assert indicator_bias(short) == pytest.approx((1 - math.sin(1)) / math.sin(1))


def test_errors_out_of_reach_are_refused_by_name():
    with pytest.raises(
        ValueError, match="`error` must be within reach of float64, got error=1e-30"
    ):
        bounded_indicator(as_series("sin"), error=1e-30)
    for error in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="`error` must be a"):
            bounded_indicator(as_series("sin"), error=error)
    with pytest.raises(ValueError, match="`limit` must be a positive number"):
        bounded_indicator(as_series("sin"), error=0.1, limit=0.0)
