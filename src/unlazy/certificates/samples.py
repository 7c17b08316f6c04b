# SPDX-License-Identifier: Apache-2.0
"""Samples on the corners of a cube: checks, and rows that repeat others."""

import numpy as np
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.checks import check_count, check_inputs, some_rows


def cube_sample(x: Float[Array | np.ndarray, "n d"]) -> tuple[Float64[np.ndarray, "n d"], float]:
    """The signs of the rows and the size of the entries; raises unless all are of one size."""
    check_inputs(x)
    x = np.asarray(x, np.float64)
    scale = float(np.median(np.abs(x)))
    off = np.flatnonzero(np.any(np.abs(np.abs(x) - scale) > 1e-6 * max(scale, 1e-300), axis=1))
    if len(off):
        raise ValueError(
            "`x` must hold corners of one cube, entries +c or -c with one c, got others in "
            f"{some_rows(off)}, where the sizes go from {np.min(np.abs(x[off])):.4g} to "
            f"{np.max(np.abs(x[off])):.4g}. Take the signs of the data first."
        )
    return np.sign(x), scale


def check_degree(degree: int, d: int) -> None:
    """Raise unless targets of that degree exist and stay apart from single coordinates."""
    check_count(degree, "degree", least=2)
    if degree > d:
        raise ValueError(f"`degree` must be at most the {d} coordinates, got degree={degree}.")


def repeated_rows(rows: Float64[np.ndarray, "n d"], *, antipodal: bool) -> Int[np.ndarray, "q 2"]:
    """Pairs of a row and the earlier one that it equals; with `antipodal`, up to its sign.

    Example:
        >>> x = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]])
        >>> print(repeated_rows(x, antipodal=True))
        [[2 0]]
    """
    keys = rows * np.sign(rows[:, :1]) if antipodal else rows
    _, first, inverse = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    earlier = first[inverse.reshape(-1)]
    again = np.flatnonzero(earlier != np.arange(len(rows)))
    return np.stack([again, earlier[again]], axis=1)
