# SPDX-License-Identifier: Apache-2.0
"""Curvature: Hessian-vector products, extreme eigenvalues, second-order certificates."""

from unlazy.landscape.certification import Certificate, certify
from unlazy.landscape.good_points import GoodLandscape, certify_good, good_landscape
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
from unlazy.landscape.kinks import Kink
from unlazy.landscape.quadratic import QuadraticRisk, quadratic_risk
from unlazy.landscape.randomized import RandomizedLandscape, randomized_landscape
from unlazy.landscape.regularized import RegularizedRisk, theory_strengths

__all__ = [
    "REGULARIZER_CONSTANT",
    "Certificate",
    "CurvatureBound",
    "ExtremeEigenvalues",
    "GoodLandscape",
    "Kink",
    "QuadraticRisk",
    "RandomizedLandscape",
    "RegularizedRisk",
    "certify",
    "certify_good",
    "curvature_bound",
    "extreme_eigenvalues",
    "good_landscape",
    "hvp",
    "localization_radius",
    "optimality_bound",
    "quadratic_risk",
    "randomized_landscape",
    "slack",
    "slack_bound",
    "theory_strengths",
]
