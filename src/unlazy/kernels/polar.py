# SPDX-License-Identifier: Apache-2.0
"""Rows split into norm and direction."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from unlazy.core.checks import is_known, some_rows
from unlazy.core.float64 import float64
from unlazy.kernels.sizes import padded


class Polar(NamedTuple):
    """Rows split into norm and direction; a row of zeros has norm 0 and direction 0."""

    norm: Float[Array, " n"]
    unit: Float[Array, "n d"]


class _Checked(NamedTuple):
    parts: Polar
    nonzero: Bool[Array, " n"]  # whether the row had an entry other than 0 before any rounding


def polar(x: Array | np.ndarray, name: str, dtype: jnp.dtype) -> Polar:
    """Norms and directions, with no square over- or underflowing on the way.

    Raises if the squared norm of a row that is not zero is out of the range of `dtype`: its kernel
    with itself would be infinite or zero.
    """
    if not is_known(x):
        return _polar(jnp.asarray(x, dtype), dtype).parts
    with float64():
        rows = _polar(jnp.asarray(x), dtype)
    parts = rows.parts
    if not is_known(parts.norm):  # a known `x`, inside a program
        return parts
    norm, range_ = np.asarray(parts.norm, np.float64), jnp.finfo(dtype)
    with np.errstate(over="ignore"):
        outside = ~((norm**2 >= float(range_.tiny)) & (norm**2 <= float(range_.max)))
    wrong = np.flatnonzero(outside & np.asarray(rows.nonzero))
    if wrong.size:
        raise ValueError(
            f"`{name}` must have rows whose squared norm is within the range of {dtype}, "
            f"got {name} out of it in {some_rows(wrong)}. Rescale the inputs."
        )
    return parts


@jax.jit(static_argnums=1)
def _polar(x: Float[Array, "n d"], dtype: jnp.dtype) -> _Checked:
    # From the rows as they came: in float32 a row of 1e-200 would already be zero.
    nonzero, x = jnp.any(x != 0, axis=1), x.astype(dtype)
    scale = jnp.max(jnp.abs(x), axis=1)
    safe = jnp.where(scale > 0, scale, 1)
    scaled = x / safe[:, None]
    # The inner where keeps the infinite slope of the root at 0 out of differentiation.
    square = jnp.sum(scaled**2, axis=1)
    length = jnp.sqrt(jnp.where(scale > 0, square, 1))
    norm = scale * length
    # Rows that are of unit norm to rounding count as such: their diagonal is then exact.
    norm = jnp.where(jnp.abs(norm - 1) <= 4 * jnp.finfo(dtype).eps, jnp.ones_like(norm), norm)
    return _Checked(Polar(norm, scaled / length[:, None]), nonzero)


def padded_polar(x: Array | np.ndarray, name: str, dtype: jnp.dtype) -> Polar:
    """Norms and directions of known rows, with more up to one of few sizes.

    The further rows have direction 0, which is near no other, and the norm of the first row, which
    changes no extreme of the norms.
    """
    parts = polar(padded(x), name, dtype)
    if len(parts.norm) == len(x) or not is_known(parts.norm):
        return parts
    norm = np.array(parts.norm)
    norm[len(x) :] = norm[0]
    return Polar(jnp.asarray(norm), parts.unit)
