# SPDX-License-Identifier: Apache-2.0
"""Scattered maxima, as of segments: the largest of an entry and of all updates that fall on it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from unlazy.special.array_series import Series, dense, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.linear_rules import Rule, bind


class _Pair(NamedTuple):
    """One array for the entries, one for the updates."""

    entries: Array
    updates: Array


def scattered_max(ctx: Context, eqn: JaxprEqn, x: Series, index: Series, u: Series) -> Series:
    """The largest at every place, or the smallest; ties share as in JAX."""
    indices = index[0]
    best = bind(eqn, x[0], indices, u[0])
    chosen = _equal(eqn, _Pair(x[0], u[0]), best, indices)
    count = _added(eqn, _where(chosen, _ones(x, u)), indices)
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


def _ones(x: Series, u: Series) -> _Pair:
    return _Pair(jnp.ones_like(x[0]), jnp.ones_like(u[0]))


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


SCATTERING: dict[str, Rule] = dict.fromkeys(("scatter-max", "scatter-min"), scattered_max)
