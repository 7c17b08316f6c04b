# SPDX-License-Identifier: Apache-2.0
"""Inputs of any length as points of the unit sphere, without loss of information."""

import math
from typing import Any

import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import check_inputs, check_positive, is_known
from unlazy.core.entries import entry
from unlazy.data.polynomials import rows_of


@entry
def pad_to_sphere(
    x: Float[Array | np.ndarray, "n d"],
    *,
    last: int | float = 0.5,
    radius: int | float | None = None,
) -> Float[Array | np.ndarray, "n d2"]:
    r"""Put inputs on the unit sphere by two more coordinates, the last of them a constant.

    $$x \to \Big( s x,\ \sqrt{1 - c^2 - s^2 \|x\|^2},\ c \Big), \qquad
    s = \frac{\sqrt{1 - c^2}}{R}$$

    with R the `radius` and c the `last` coordinate. Unlike $x/\|x\|$ it keeps the length of x: a
    function $\phi(\langle w, x\rangle)$ is $\phi(\langle (w/s, 0, 0), \cdot\rangle)$ of the padded
    inputs. The theorems on over-parameterised learners assume such inputs, with c = 1/2 as an
    input that serves as a bias.

    Source: arXiv:1811.04918 section 2; RN-1, arXiv:1905.10337, which assumes unit norm alone.

    Args:
        x: inputs as rows; zero rows are fine.
        last: c, from 0 to below 1.
        radius: R, at least the largest norm; None for that one. Pass the radius of the training
            inputs for others, so that both are scaled alike.

    Returns:
        Rows of unit norm and dimension d + 2, in the dtype of `x`.

    Raises:
        ValueError: `last` is out of its range, or a row is longer than `radius`.

    Example:
        >>> print(pad_to_sphere(np.array([[3.0, 4.0], [0.0, 0.0]])).round(3))
        [[0.52  0.693 0.    0.5  ]
         [0.    0.    0.866 0.5  ]]
    """
    check_inputs(x, allow_zero_rows=True)
    if not 0 <= last < 1:
        raise ValueError(f"`last` must be at least 0 and below 1, got last={last}.")
    xp, x = rows_of(x)
    left = 1 - float(last) ** 2
    share = x / (_longest(xp, x) if radius is None else _checked(radius, xp, x))
    rest = left * (1 - xp.sum(share**2, axis=1, keepdims=True))
    height = xp.sqrt(xp.maximum(rest, 0))  # rounding may take the longest row below 0
    parts = [math.sqrt(left) * share, height, xp.full_like(height, float(last))]
    return xp.concatenate(parts, axis=1)


def _longest(xp: Any, x: Any) -> Any:
    """The largest norm of a row, and 1 where all rows are zero and have no length to scale by."""
    size = xp.max(xp.abs(x))  # before squares, which overflow from 1e19 on in float32
    size = xp.where(size > 0, size, xp.ones_like(size))
    norm = size * xp.sqrt(xp.max(xp.sum((x / size) ** 2, axis=1)))
    return xp.where(norm > 0, norm, xp.ones_like(norm))


def _checked(radius: int | float, xp: Any, x: Any) -> float:
    check_positive(radius, "radius")
    if is_known(x) and np.any(x):
        longest = float(_longest(xp, x))
        if longest > radius * (1 + 8 * float(np.finfo(x.dtype).eps)):
            raise ValueError(
                f"`radius` must be at least the norm of every row, {longest:.6g}, "
                f"got radius={radius}."
            )
    return float(radius)
