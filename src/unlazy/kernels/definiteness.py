# SPDX-License-Identifier: Apache-2.0
"""Whether a kernel is positive semi-definite on some samples, asked where a solve has failed."""

import math

import numpy as np
from jaxtyping import Float64

from unlazy.kernels.tiles import Tiles
from unlazy.linalg.lanczos import top_eigen

_WIDTH, _MOST_PRODUCTS = 2, 40  # of the Lanczos block: far less work than the solve that failed
_MARGIN = 100  # times the rounding, beyond which an eigenvalue below zero is none of it
_ARCCOS = 2e-8  # rounding of the entries of kernels made with a plain arccos


def check_definite(tiles: Tiles, ridge: float = 0.0) -> None:
    r"""Raise if $H + \text{ridge} I$ has an eigenvalue below zero that rounding does not explain.

    A few steps of Lanczos towards the smallest eigenvalue: the least Ritz value is never below it,
    so that a matrix which is positive semi-definite is never refused. One whose only negative
    eigenvalues are tiny may be missed.
    """
    if tiles.by_products:  # the Gram matrix of gradients
        return
    diagonal = tiles.diagonal()
    check_diagonal(tiles, diagonal, ridge)
    _check_least(tiles, diagonal, ridge, _least_ritz_value(tiles, ridge))


def check_diagonal(tiles: Tiles, diagonal: Float64[np.ndarray, " n"], ridge: float = 0.0) -> None:
    """Raise if an entry is below zero: the smallest eigenvalue is no larger."""
    _check_least(tiles, diagonal, ridge, float(np.min(diagonal)) + ridge)


def _check_least(
    tiles: Tiles, diagonal: Float64[np.ndarray, " n"], ridge: float, least: float
) -> None:
    size = float(np.max(np.abs(diagonal))) + ridge
    rounding = size * max(tiles.n**2 * float(np.finfo(np.float64).eps), _ARCCOS, tiles.noise)
    if least < -_MARGIN * rounding:
        raise ValueError(
            "`kernel` must be positive semi-definite, got one whose matrix on these samples"
            f"{f', with the ridge {ridge:g},' if ridge else ''} has an eigenvalue of at most "
            f"{least:.3g}, beside diagonal entries up to {np.max(diagonal) + ridge:.3g}. "
            "Use k(x, x') = phi(x) . phi(x') for some phi."
        )


def _least_ritz_value(tiles: Tiles, ridge: float) -> float:
    start = np.random.default_rng(0).standard_normal((tiles.n, min(_WIDTH, tiles.n)))
    products = tiles.products()

    def negated(V: np.ndarray) -> np.ndarray:
        return -(products(V) + ridge * V)

    found = top_eigen(negated, start, 1, tolerance=0.01, max_iterations=_MOST_PRODUCTS)
    value = -float(found.values[0])
    return value if math.isfinite(value) else 0.0
