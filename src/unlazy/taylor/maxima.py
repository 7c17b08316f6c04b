# SPDX-License-Identifier: Apache-2.0
"""Maxima over windows (max-pooling) and scattered maxima (of segments), with their coefficients.

On some devices JAX differentiates max-pooling with entries packed into half of their bits. Here the
windows are compared entry by entry, in as many slices as a window has entries.
"""

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from unlazy.core.jaxprs import shaped
from unlazy.special.array_series import Series, at, dense, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.kinks import difference, direction, moves
from unlazy.taylor.linear_rules import Rule, bind


def pooled_max(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    """The largest entry of every window, or the smallest; among equals the first, as in JAX."""
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


class _Pair(NamedTuple):
    entries: Array
    updates: Array


def scattered_max(ctx: Context, eqn: JaxprEqn, x: Series, index: Series, u: Series) -> Series:
    """The largest of an entry and all updates that fall on it, or the smallest.

    Ties share, as in JAX.
    """
    indices = index[0]
    best = bind(eqn, x[0], indices, u[0])
    chosen = _equal(eqn, _Pair(x[0], u[0]), best, indices)
    ones = _Pair(jnp.ones_like(x[0]), jnp.ones_like(u[0]))
    count = _added(eqn, _where(chosen, ones), indices)
    result: list[Array | None] = [best]
    apart = jnp.zeros((), bool)
    for j in range(1, max(len(x), len(u))):
        c = _Pair(*(dense(s, j)[j] for s in (x, u)))
        if ctx.side:
            share = _leading(ctx.side**j, eqn, c, chosen, indices)
        else:
            share = _added(eqn, _where(chosen, c), indices) / count
        agreeing = _equal(eqn, c, share, indices)
        several = (count > 1, _taken(eqn, count, indices, u[0]) > 1)
        for mine, same, many in zip(chosen, agreeing, several, strict=True):
            apart = apart | jnp.any(mine & ~same & many)
        if ctx.side:
            chosen = _Pair(*(a & b for a, b in zip(chosen, agreeing, strict=True)))
        result.append(jnp.where(jnp.isnan(best), best, share))
    ctx.report(eqn.primitive.name, apart)
    return trimmed(result)


def _leading(sign: int, eqn: JaxprEqn, c: _Pair, chosen: _Pair, indices: Array) -> Array:
    """The coefficient of those that lead on one side of t = 0, among the chosen."""
    lowest = -jnp.inf if eqn.primitive.name == "scatter-max" else jnp.inf
    signed = (jnp.where(mine, v * sign, lowest) for mine, v in zip(chosen, c, strict=True))
    entries, updates = signed
    return bind(eqn, entries, indices, updates) * sign


def _equal(eqn: JaxprEqn, c: _Pair, value: Array, indices: Array) -> _Pair:
    return _Pair(c.entries == value, c.updates == _taken(eqn, value, indices, c.updates))


def _where(chosen: _Pair, c: _Pair) -> _Pair:
    return _Pair(*(jnp.where(mine, v, 0) for mine, v in zip(chosen, c, strict=True)))


def _added(eqn: JaxprEqn, c: _Pair, indices: Array) -> Array:
    options = {name: eqn.params[name] for name in ("indices_are_sorted", "unique_indices", "mode")}
    numbers = eqn.params["dimension_numbers"]
    return lax.scatter_add(c.entries, indices, c.updates, numbers, **options)


def _taken(eqn: JaxprEqn, value: Array, indices: Array, updates: Array) -> Array:
    """For every update the value at its place, 0 where it falls outside: scattering, transposed."""
    zeros = jnp.zeros_like(value)
    back = jax.linear_transpose(lambda u: _added(eqn, _Pair(zeros, u), indices), updates)
    return back(value)[0]


MAXIMA: dict[str, Rule] = {
    **dict.fromkeys(("reduce_window_max", "reduce_window_min"), pooled_max),
    **dict.fromkeys(("scatter-max", "scatter-min"), scattered_max),
}
