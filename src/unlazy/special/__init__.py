# SPDX-License-Identifier: Apache-2.0
"""Special functions, evaluated fast and to full precision."""

from unlazy.special.gaussian_quadrature import (
    GaussianRule,
    HermiteSeries,
    gaussian_rule,
    hermite_series,
)
from unlazy.special.orthant import orthant_probability
from unlazy.special.relu_moments import ArcCosine, arc_cosine

__all__ = [
    "ArcCosine",
    "GaussianRule",
    "HermiteSeries",
    "arc_cosine",
    "gaussian_rule",
    "hermite_series",
    "orthant_probability",
]
