# SPDX-License-Identifier: Apache-2.0
"""The eigenpairs that labels feel, from products with a kernel that is never a matrix."""

import warnings
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float64

from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.linalg.lanczos import Quadrature, krylov_quadrature

if TYPE_CHECKING:
    from unlazy.kernels import KernelOperator


def krylov_space(
    H: "KernelOperator", labels: Float64[np.ndarray, "n c"], *, tolerance: float, max_basis: int
) -> Quadrature:
    """Ritz pairs of the Krylov space of the labels; warns if loss or movement have not settled."""
    rule = krylov_quadrature(
        H.tiles.products(),
        labels,
        watched_curves,
        # A random column finds lambda_max even when the labels have no part there.
        companion=np.random.default_rng(0).standard_normal((len(labels), 1)),
        tolerance=H.tiles.attainable(tolerance),
        max_basis=max_basis,
    )
    if not rule.converged:
        warnings.warn(
            f"The Krylov space of dimension {len(rule.nodes)} is too small: loss or movement still "
            f"changed by a share {rule.change:.2g}. Give a larger `max_basis` or `tolerance`.",
            UnlazyWarning,
            stacklevel=user_level(),
        )
    return rule


def watched_curves(
    nodes: Float64[np.ndarray, " r"], projections: Float64[np.ndarray, "r c"]
) -> Float64[np.ndarray, " w"]:
    """The values that must settle: the loss over many decades of steps, and the final movement."""
    rate = np.clip(nodes / max(float(nodes[0]), float(np.finfo(np.float64).tiny)), 0.0, 1.0)
    squares = np.sum(projections**2, axis=1)
    steps = 2.0 ** np.arange(0, 24, 2)
    with np.errstate(divide="ignore"):
        decay = np.exp(2 * steps[:, None] * np.log1p(-rate)[None, :])
    # The initial loss is added so that changes count relative to it: 1e-12 need not be exact.
    losses = np.sum(squares) + decay @ squares
    positive = rate > len(rate) * np.finfo(np.float64).eps
    movement = np.sqrt(np.sum(squares[positive] / rate[positive]))
    return np.append(losses, movement)
