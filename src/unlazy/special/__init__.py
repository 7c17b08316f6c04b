# SPDX-License-Identifier: Apache-2.0
"""Special functions, evaluated fast and to full precision."""

from unlazy.special.complexities import SeriesComplexity, series_complexity
from unlazy.special.cube_functions import krawtchouk, subset_masks, subsets, walsh_hadamard
from unlazy.special.gaussian_quadrature import (
    GaussianRule,
    HermiteSeries,
    gaussian_rule,
    hermite_series,
)
from unlazy.special.half_line_moments import (
    hermite_indicator,
    indicator_window,
    truncated_moments,
    window_moment,
)
from unlazy.special.harmonics import (
    gegenbauer,
    gegenbauer_power,
    harmonic_count,
    harmonic_dimension,
)
from unlazy.special.hermite import hermite, hermite_coefficients
from unlazy.special.hermite_identities import hermite_scaling, hermite_translation
from unlazy.special.orthant import orthant_probability
from unlazy.special.power_series import PowerSeries, log_series, taylor_series
from unlazy.special.relu_moments import ArcCosine, arc_cosine
from unlazy.special.relu_series import relu_series
from unlazy.special.series_operations import (
    ChebyshevSeries,
    chebyshev_series,
    series_composition,
    series_product,
)
from unlazy.special.shifts import (
    Derivatives,
    Needed,
    ShiftReport,
    gegenbauer_coefficients,
    generic_shift,
)
from unlazy.special.sphere_quadrature import ZonalRule, funk_hecke, gegenbauer_rule, zonal_rule

__all__ = [
    "ArcCosine",
    "ChebyshevSeries",
    "Derivatives",
    "GaussianRule",
    "HermiteSeries",
    "Needed",
    "PowerSeries",
    "SeriesComplexity",
    "ShiftReport",
    "ZonalRule",
    "arc_cosine",
    "chebyshev_series",
    "funk_hecke",
    "gaussian_rule",
    "gegenbauer",
    "gegenbauer_coefficients",
    "gegenbauer_power",
    "gegenbauer_rule",
    "generic_shift",
    "harmonic_count",
    "harmonic_dimension",
    "hermite",
    "hermite_coefficients",
    "hermite_indicator",
    "hermite_scaling",
    "hermite_series",
    "hermite_translation",
    "indicator_window",
    "krawtchouk",
    "log_series",
    "orthant_probability",
    "relu_series",
    "series_complexity",
    "series_composition",
    "series_product",
    "subset_masks",
    "subsets",
    "taylor_series",
    "truncated_moments",
    "walsh_hadamard",
    "window_moment",
    "zonal_rule",
]
