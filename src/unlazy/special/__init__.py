# SPDX-License-Identifier: Apache-2.0
"""Special functions, evaluated fast and to full precision."""

from unlazy.special.gaussian_quadrature import (
    GaussianRule,
    HermiteSeries,
    gaussian_rule,
    hermite_series,
)
from unlazy.special.harmonics import gegenbauer, gegenbauer_power, harmonic_dimension
from unlazy.special.hermite import hermite, hermite_coefficients
from unlazy.special.orthant import orthant_probability
from unlazy.special.relu_moments import ArcCosine, arc_cosine
from unlazy.special.relu_series import relu_series
from unlazy.special.sphere_quadrature import ZonalRule, funk_hecke, gegenbauer_rule, zonal_rule

__all__ = [
    "ArcCosine",
    "GaussianRule",
    "HermiteSeries",
    "ZonalRule",
    "arc_cosine",
    "funk_hecke",
    "gaussian_rule",
    "gegenbauer",
    "gegenbauer_power",
    "gegenbauer_rule",
    "harmonic_dimension",
    "hermite",
    "hermite_coefficients",
    "hermite_series",
    "orthant_probability",
    "relu_series",
    "zonal_rule",
]
