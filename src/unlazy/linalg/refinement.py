# SPDX-License-Identifier: Apache-2.0
"""Solves to float64 accuracy from a float32 factorisation: half the memory, and often the time."""

import math
from collections.abc import Callable

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core.entries import entry
from unlazy.core.float64 import float64
from unlazy.linalg.cholesky_factors import DeviceCholesky, HostCholesky, cholesky_in_place
from unlazy.linalg.iterative import IterativeSolution, Progress, conjugate_gradients

# The rounding of a matrix with unit diagonal has a norm of about eps32 sqrt(n); the first shift
# covers it, and the last is still far below the eigenvalues that slow conjugate gradients down.
_SHIFTS = (0.0, 4.0, 100.0, 3000.0)


class Float32Factor(eqx.Module):
    r"""$S (L L^\top)^{-1} S \approx H^{-1}$ with $L$ in float32; $S H S$ has a unit diagonal."""

    factor: HostCholesky | DeviceCholesky
    scale: Float64[np.ndarray, " n"]
    shift: float  # added to the unit diagonal; zero unless float32 found the matrix indefinite

    @entry
    def __call__(self, r: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        """The approximate inverse times each column of `r`."""
        scaled = self.scale[:, None] * r
        # Scaled to unit size, since late remainders would leave the range of float32.
        size = np.linalg.norm(scaled, axis=0)
        size = np.where(size > 0, size, 1.0)
        return self.scale[:, None] * (self.factor.solve(scaled / size) * size)


def float32_factor(
    assemble: Callable[[Float64[np.ndarray, " n"], float], Float[np.ndarray | Array, "n n"]],
    diagonal: Float64[np.ndarray, " n"],
) -> Float32Factor | None:
    r"""Factorise in float32 with the smallest of a few shifts that succeeds; None if none does.

    Near-duplicate rows make a float32 factorisation fail though the float64 matrix is positive
    definite (AR-54). A shifted factor is no longer an inverse, but still a preconditioner.
    `assemble(scale, shift)` gives $S H S + \text{shift} I$ in float32, as a new array each time.
    """
    n = len(diagonal)
    scale = 1 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    for multiple in _SHIFTS:
        shift = multiple * float(np.finfo(np.float32).eps) * math.sqrt(n)
        factor = cholesky_in_place(assemble(scale, shift))
        if factor is not None:
            return Float32Factor(factor, scale, shift)
    return None


@entry
def refined_solve(
    H: Float[Array | np.ndarray, "n n"],
    y: Float64[np.ndarray, "n c"],
    *,
    tolerance: float = 1e-10,
    progress: Progress | None = None,
) -> IterativeSolution | None:
    r"""Solve $H X = Y$ for a float64 matrix through a float32 factorisation.

    Conjugate gradients with the factor as preconditioner solve for the float64 remainder: two or
    three rounds while the condition number is below 1e7. None when no float32 factorisation exists.

    Source: AR-54, arXiv:1901.08584, where float32 alone loses two digits or fails.

    Example:
        >>> H = np.array([[2.0, 1.0], [1.0, 2.0]])
        >>> solution = refined_solve(H, np.array([[3.0], [3.0]]))
        >>> print(solution.value[:, 0].round(12), solution.converged)
        [1. 1.] True
    """
    with float64():
        H = np.asarray(H, np.float64)

    def assemble(scale, shift):
        scaled = np.asarray(scale[:, None] * H * scale, np.float32)
        scaled[np.diag_indices_from(scaled)] += np.float32(shift)
        return scaled

    factor = float32_factor(assemble, np.diagonal(H).copy())
    if factor is None:
        return None
    return conjugate_gradients(
        lambda V: H @ V, y, precondition=factor, tolerance=tolerance, progress=progress
    )
