# SPDX-License-Identifier: Apache-2.0
"""Compare the terms at a kink from t > 0 and from t < 0 with each other and with JAX's own."""

import numpy as np
from jaxtyping import Array

from unlazy.core.checks import some_rows
from unlazy.core.errors import UnlazyError

_REMEDY = (
    "Move `params` off that point, or pass at_kinks='jax' to take JAX's own derivative there, as "
    "under jax.jit."
)


class NoTaylorTermError(UnlazyError, ValueError):
    """The network has no derivative of that order there, such as a ReLU at exactly 0."""


def check_sides(right: Array, left: Array, here: Array, eps: float, names: list[str]) -> None:
    """Raise at the first term that is not the same from both sides.

    `right` are the terms for small t > 0, `left` those for t < 0, and `here` what `jax.grad` gives
    at t = 0, where term 0 is the value itself. `names` are the operations that kink.
    """
    where = ", ".join(names)
    terms = [_wide(part) for part in (right, left, here)]
    for k, rows in enumerate(zip(*terms, strict=True)):
        plus, minus, own = (np.atleast_1d(row) for row in rows)
        apart = ~close(plus, minus, eps)
        lost = np.isnan(plus) & np.isnan(minus)
        if k == 0:  # the value exists; what may not exist is a derivative
            apart |= ~close(plus, own, eps)
        apart &= ~lost
        if np.any(apart):
            why = "because the outputs jump"
            if k:
                why = "which differs between the two sides of a kink"
            raise NoTaylorTermError(
                f"`order` must be at most {max(k - 1, 0)} at these `params`, got "
                f"order={len(right) - 1}: there is no term of order {max(k, 1)}, {why} ({where}) "
                f"in {some_rows(_rows(apart))}. {_REMEDY}"
            )
        lost &= ~np.isnan(own)  # where the network itself is nan there is nothing to compare
        if k and np.any(lost):
            raise NoTaylorTermError(
                f"`order` must be at most {k - 1} at these `params`, got order={len(right) - 1}: "
                f"the limit of the term of order {k} at a kink ({where}) cannot be computed in "
                f"{some_rows(_rows(lost))}. {_REMEDY}"
            )


def check_slope(right: Array, here: Array, measured: Array, eps: float, names: list[str]) -> None:
    """Raise where the sides give another slope than JAX, and a difference quotient sides with JAX.

    The two may differ: relu(w) - relu(-w) has slope 1 at 0, where JAX gives 0. The quotient tells
    that from an operation whose own derivative program was misread at the kink.
    """
    plus, own, slope = (np.atleast_1d(_wide(part)) for part in (right, here, measured))
    wrong = ~close(plus, own, eps) & (np.abs(slope - own) < np.abs(slope - plus))
    if np.any(wrong):
        raise NoTaylorTermError(
            f"`order` must be 0 at these `params`, got a higher one: the limit of the term of "
            f"order 1 at a kink ({', '.join(names)}) cannot be computed in "
            f"{some_rows(_rows(wrong))}. {_REMEDY}"
        )


def close(a: np.ndarray, b: np.ndarray, eps: float) -> np.ndarray:
    """Where two arrays agree to rounding on the scale of their largest entries."""
    sizes = [np.where(np.isfinite(part), np.abs(part), 0) for part in (a, b)]
    scale = sum(np.max(size, initial=0) for size in sizes)
    with np.errstate(invalid="ignore"):  # inf - inf
        gap = np.abs(a - b)
    # In half precision 100 eps would hide a kink.
    return (a == b) | (gap <= min(100 * eps, 0.02) * scale)


def _rows(bad: np.ndarray) -> np.ndarray:
    return np.flatnonzero(bad.reshape(len(bad), -1).any(axis=1))


def _wide(part: Array) -> np.ndarray:
    # NumPy does not compute with bfloat16.
    complex_ = np.issubdtype(part.dtype, np.complexfloating)
    return np.asarray(part).astype(np.complex128 if complex_ else np.float64)
