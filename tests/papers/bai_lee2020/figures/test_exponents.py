# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.experiments import CellResult
from unlazy.papers.bai_lee2020.figures.exponents import curve, fitted_exponent


def test_the_fit_is_least_squares_with_its_standard_error():
    rng = np.random.default_rng(0)
    widths = 2.0 ** np.arange(6, 13)
    values = widths**-0.25 * np.exp(0.1 * rng.standard_normal(7))
    coefficients, covariance = np.polyfit(np.log(widths), np.log(values), 1, cov=True)
    fit = fitted_exponent(widths, values)
    assert fit.value == pytest.approx(coefficients[0], rel=1e-10)
    assert fit.error == pytest.approx(math.sqrt(covariance[0, 0]), rel=1e-10)


def test_a_curve_is_the_root_mean_square_over_seeds():
    width = np.array([1, 2, 4])
    seeds = [CellResult({"width": width, "v": c / width}) for c in (3.0, 4.0)]
    both = curve(seeds, "v")
    np.testing.assert_allclose(both.rms, math.sqrt(12.5) / width)
    np.testing.assert_allclose(both.mean, 3.5 / width)
    np.testing.assert_allclose(both.spread, math.sqrt(0.5) / width)
    assert both.exponent.value == pytest.approx(-1)
