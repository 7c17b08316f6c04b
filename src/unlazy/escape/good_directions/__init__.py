# SPDX-License-Identifier: Apache-2.0
"""Good directions: the leading ones of the tangent features, and penalties on all others."""

from unlazy.escape.good_directions.covariance import SphereCovariance, sphere_covariance
from unlazy.escape.good_directions.geometry import Directions, directions
from unlazy.escape.good_directions.linear_term import LinearTerm
from unlazy.escape.good_directions.model_penalty import DirectionPenalty, direction_penalty
from unlazy.escape.good_directions.spectra import (
    SpectralBlocks,
    limit_eigenvalues,
    spectral_blocks,
    spectral_gap,
)
from unlazy.escape.good_directions.twins import TwinCoordinates, twin_coordinates

__all__ = [
    "DirectionPenalty",
    "Directions",
    "LinearTerm",
    "SpectralBlocks",
    "SphereCovariance",
    "TwinCoordinates",
    "direction_penalty",
    "directions",
    "limit_eigenvalues",
    "spectral_blocks",
    "spectral_gap",
    "sphere_covariance",
    "twin_coordinates",
]
