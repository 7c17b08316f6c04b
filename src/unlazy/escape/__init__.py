# SPDX-License-Identifier: Apache-2.0
"""Leaving the lazy regime: random signs, matched moments, norms and regularisers."""

from unlazy.escape.coupling import (
    Smoothness,
    coupling_bound,
    init_norm_bound,
    linear_variance,
    linear_variance_bound,
    quadratic_bound,
    remainder_bound,
    smoothness,
)
from unlazy.escape.extraction import (
    ExtractionNet,
    PowerExtraction,
    block_extraction,
    power_extraction,
    sampled_extraction,
)
from unlazy.escape.good_directions import (
    DirectionPenalty,
    Directions,
    LinearTerm,
    SpectralBlocks,
    SphereCovariance,
    TwinCoordinates,
    direction_penalty,
    directions,
    limit_eigenvalues,
    spectral_blocks,
    spectral_gap,
    sphere_covariance,
    twin_coordinates,
)
from unlazy.escape.moments import Discrete, MatchedMoments, matched_moments
from unlazy.escape.norms import norm_2p
from unlazy.escape.penalty import (
    regularizer,
    regularizer_curvature,
    regularizer_gradient,
    regularizer_hessian_form,
    regularizer_hvp,
)
from unlazy.escape.predictors import mean_output, quadratic_output, signed_output
from unlazy.escape.risk import RandomizedRisk
from unlazy.escape.signs import flip, random_signs
from unlazy.escape.spread import spread_ratio, three_layer_regularizer

__all__ = [
    "DirectionPenalty",
    "Directions",
    "Discrete",
    "ExtractionNet",
    "LinearTerm",
    "MatchedMoments",
    "PowerExtraction",
    "RandomizedRisk",
    "Smoothness",
    "SpectralBlocks",
    "SphereCovariance",
    "TwinCoordinates",
    "block_extraction",
    "coupling_bound",
    "direction_penalty",
    "directions",
    "flip",
    "init_norm_bound",
    "limit_eigenvalues",
    "linear_variance",
    "linear_variance_bound",
    "matched_moments",
    "mean_output",
    "norm_2p",
    "power_extraction",
    "quadratic_bound",
    "quadratic_output",
    "random_signs",
    "regularizer",
    "regularizer_curvature",
    "regularizer_gradient",
    "regularizer_hessian_form",
    "regularizer_hvp",
    "remainder_bound",
    "sampled_extraction",
    "signed_output",
    "smoothness",
    "spectral_blocks",
    "spectral_gap",
    "sphere_covariance",
    "spread_ratio",
    "three_layer_regularizer",
    "twin_coordinates",
]
