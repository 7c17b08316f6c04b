# SPDX-License-Identifier: Apache-2.0
"""Curvature: Hessian-vector products, extreme eigenvalues, second-order certificates."""

from unlazy.landscape.certification import Certificate, certify
from unlazy.landscape.hessian import ExtremeEigenvalues, extreme_eigenvalues, hvp
from unlazy.landscape.inequality import (
    REGULARIZER_CONSTANT,
    CurvatureBound,
    curvature_bound,
    localization_radius,
    optimality_bound,
    slack,
    slack_bound,
)
from unlazy.landscape.quadratic import QuadraticRisk, quadratic_risk
from unlazy.landscape.randomized import RandomizedLandscape, randomized_landscape

__all__ = [
    "REGULARIZER_CONSTANT",
    "Certificate",
    "CurvatureBound",
    "ExtremeEigenvalues",
    "QuadraticRisk",
    "RandomizedLandscape",
    "certify",
    "curvature_bound",
    "extreme_eigenvalues",
    "hvp",
    "localization_radius",
    "optimality_bound",
    "quadratic_risk",
    "randomized_landscape",
    "slack",
    "slack_bound",
]
