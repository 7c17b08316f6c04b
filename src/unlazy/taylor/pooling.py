# SPDX-License-Identifier: Apache-2.0
"""Max-pooling: the largest entry of every window, with the coefficients that belong to it.

JAX differentiates it with entries packed into half of their bits on some devices. Here the windows
are compared entry by entry, as many slices as a window has entries.
"""

import itertools
from collections.abc import Iterator

import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from unlazy.core.programs import shaped
from unlazy.special.array_series import Series, at, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.kinks import difference, direction, moves
from unlazy.taylor.linear_rules import Rule


def pooled_max(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    """The largest of every window, or the smallest; of equals the first, as in JAX."""
    sign = 1 if eqn.primitive.name == "reduce_window_max" else -1
    entries = _entries(eqn, x, -sign * jnp.inf)
    best = next(entries)
    for other in entries:
        gap = difference(other, best)
        tied = other[0] == best[0]  # both may be infinite, so not by their difference
        taken = other[0] * sign > best[0] * sign
        if ctx.side == 0:
            ctx.report(eqn.primitive.name, tied & moves(gap))
        else:
            ahead = direction((jnp.zeros_like(gap[0]), *gap[1:]), ctx.side) * sign > 0
            taken = taken | (tied & ahead)
        best = _chosen(taken, other, best)
    return best


def _chosen(taken: Array, a: Series, b: Series) -> Series:
    result: list[Array | None] = []
    for j in range(max(len(a), len(b))):
        parts = at(a, j), at(b, j)
        if parts == (None, None):
            result.append(None)
            continue
        left, right = (jnp.zeros_like(a[0]) if part is None else part for part in parts)
        result.append(jnp.where(taken, left, right))
    return trimmed(result)


def _entries(eqn: JaxprEqn, x: Series, outside: float) -> Iterator[Series]:
    """The first entry of every window, then the second, and so on."""
    window, dilation = eqn.params["window_dimensions"], eqn.params["window_dilation"]
    strides, shape = eqn.params["window_strides"], shaped(eqn.outvars[0]).shape
    edges = [
        (low, high, inner - 1)
        for (low, high), inner in zip(
            eqn.params["padding"], eqn.params["base_dilation"], strict=True
        )
    ]
    padded = [
        None if c is None else lax.pad(c, jnp.asarray(0.0 if j else outside, c.dtype), edges)
        for j, c in enumerate(x)
    ]
    for place in itertools.product(*(range(size) for size in window)):
        start = [k * step for k, step in zip(place, dilation, strict=True)]
        stop = [
            first + (count - 1) * stride + 1
            for first, count, stride in zip(start, shape, strides, strict=True)
        ]
        yield trimmed(None if c is None else lax.slice(c, start, stop, strides) for c in padded)


POOLING: dict[str, Rule] = dict.fromkeys(("reduce_window_max", "reduce_window_min"), pooled_max)
