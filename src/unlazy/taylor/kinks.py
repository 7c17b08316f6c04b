# SPDX-License-Identifier: Apache-2.0
r"""Operations that choose between values: where the choice changes at t = 0, the function kinks.

With `side` 0 the choice is JAX's own, half of each at a tie of `maximum`. With side +1 it is the
one that holds for small $t > 0$: the sign of a difference is that of its first coefficient that is
not zero; for $t < 0$ the odd ones count with the other sign. A Taylor term exists where both sides
give it, as for `max(x, 0)**3` at 0 up to the second.
"""

import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from unlazy.special.array_series import Series, at, minus, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.linear_rules import Rule, alike, bind

_ROUNDING = 32  # units in the last place, of a coefficient computed in two ways


def difference(a: Series, b: Series) -> Series:
    """The series of a - b, where values that move alike to rounding do not part."""
    if a is b:
        return (jnp.zeros_like(a[0]),)
    beyond = (_parting(at(a, j), at(b, j)) for j in range(1, max(len(a), len(b))))
    return trimmed((minus(a[0], b[0]), *beyond))


def _parting(a: Array | None, b: Array | None) -> Array | None:
    gap = minus(a, b)
    if a is None or b is None or gap is None:
        return gap
    rounding = _ROUNDING * jnp.finfo(gap.dtype).eps * jnp.maximum(jnp.abs(a), jnp.abs(b))
    return jnp.where(jnp.abs(gap) <= rounding, jnp.zeros_like(gap), gap)


def moves(s: Series) -> Array:
    """Where a coefficient beyond the first is not zero."""
    found = jnp.zeros(jnp.shape(s[0]), bool)
    for c in s[1:]:
        if c is not None:
            found = found | (c != 0)
    return found


def parts(ctx: Context, s: Series) -> Array:
    """Where a series leaves its start, or may do so beyond what is known of it."""
    return jnp.full(jnp.shape(s[0]), True) if ctx.blind else moves(s)


def direction(s: Series, side: int) -> Array:
    """The sign of a series for small t on that side: 1, -1, or 0 where it vanishes."""
    sign = jnp.zeros_like(s[0])
    for j in range(len(s) - 1, -1, -1):
        c = s[j]
        if c is not None:
            sign = jnp.where(c == 0, sign, jnp.sign(c) * side**j)
    return sign


def comparison(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """A truth value, which does not move; its operands may cross."""
    a, b = (a, a) if a is b else alike(eqn, a, b)
    if ctx.side == 0:
        if a is not b:
            tied = (a[0] == b[0]) & parts(ctx, difference(a, b))
            ctx.report(eqn.primitive.name, tied)
        return (bind(eqn, a[0], b[0]),)
    sign = direction(difference(a, b), ctx.side)
    apart = jnp.isfinite(a[0]) & jnp.isfinite(b[0])
    return (jnp.where(apart, bind(eqn, sign, jnp.zeros_like(sign)), bind(eqn, a[0], b[0])),)


def larger(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """The larger of two, or the smaller."""
    a, b = alike(eqn, a, b)
    sign = 1 if eqn.primitive.name == "max" else -1
    gap = difference(a, b)
    if ctx.side == 0:
        ctx.report(eqn.primitive.name, (a[0] == b[0]) & moves(gap))
        ahead = jnp.sign(gap[0]) * sign
    else:
        ahead = direction(gap, ctx.side) * sign
    # 1 where a is taken, 0 where b is, and half of each at a tie, as in JAX; infinities compare.
    share = jnp.where(
        a[0] == b[0], ahead / 2 + 0.5, jnp.where((a[0] > b[0]) == (sign > 0), 1.0, 0.0)
    )
    share = share.astype(a[0].dtype)
    result: list[Array | None] = [bind(eqn, a[0], b[0])]
    for j in range(1, max(len(a), len(b))):
        result.append(_mixed(share, at(a, j), at(b, j)))
    return trimmed(result)


def _mixed(share: Array, a: Array | None, b: Array | None) -> Array | None:
    if a is None:
        return None if b is None else (1 - share) * b
    return share * a if b is None else share * a + (1 - share) * b


def step(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    """A function that is constant between its jumps: sign, floor, ceil, round."""
    name = eqn.primitive.name
    jumps = x[0] == 0 if name == "sign" else (x[0] + (0.5 if name == "round" else 0)) % 1 == 0
    if ctx.side and name == "sign":
        return (direction(x, ctx.side),)
    return _beside(ctx, eqn, x, jumps, name)


def truncated(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    """Floats converted to integers, towards 0, or to booleans."""
    to_bool = jnp.issubdtype(eqn.params["new_dtype"], bool)
    jumps = x[0] == 0 if to_bool else (x[0] % 1 == 0) & (x[0] != 0)
    return _beside(ctx, eqn, x, jumps, "conversion to integers")


def _beside(ctx: Context, eqn: JaxprEqn, x: Series, jumps: Array, name: str) -> Series:
    """The constant on the side of the jumps to which x moves; with side 0 JAX's own at them."""
    if ctx.side == 0:
        ctx.report(name, jumps & parts(ctx, x))
        return (bind(eqn, x[0]),)
    # A quarter to the side where x goes: the next float may be flushed to the jump itself.
    towards = direction((jnp.zeros_like(x[0]), *x[1:]), ctx.side)
    return (bind(eqn, jnp.where(jumps, x[0] + towards / 4, x[0])),)


def best_place(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    """Where the largest entry is, or the smallest; among equals the first."""
    (axis,) = eqn.params["axes"]
    place = bind(eqn, x[0])
    best = jnp.take_along_axis(x[0], jnp.expand_dims(place, axis), axis)
    chosen = x[0] == best
    if ctx.side == 0:
        apart = parts(ctx, x) & ctx.blind
        for c in x[1:]:
            if c is not None:
                first = jnp.take_along_axis(c, jnp.expand_dims(place, axis), axis)
                apart = apart | (c != first)
        rivals = jnp.sum(chosen, axis, keepdims=True) > 1
        ctx.report(eqn.primitive.name, apart & chosen & rivals)
        return (place,)
    sign = 1 if eqn.primitive.name == "argmax" else -1
    for j, c in enumerate(x[1:], start=1):
        if c is not None:
            signed = jnp.where(chosen, c * (sign * ctx.side**j), -jnp.inf)
            chosen = chosen & (signed == jnp.max(signed, axis, keepdims=True))
    found = jnp.argmax(chosen, axis).astype(place.dtype)
    return (jnp.where(jnp.any(chosen, axis), found, place),)  # none where the best is nan


def reduced_max(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    """The largest entry, or the smallest, along axes; ties share as in JAX."""
    axes = eqn.params["axes"]
    best = bind(eqn, x[0])
    chosen = x[0] == jnp.expand_dims(best, axes)
    if ctx.side:
        return _first_in_order(ctx, eqn, x, best, chosen)
    count = jnp.sum(chosen, axes, dtype=x[0].dtype)
    result: list[Array | None] = [best]
    apart = jnp.zeros_like(chosen)
    for c in x[1:]:
        if c is None:
            result.append(None)
            continue
        mean = jnp.sum(jnp.where(chosen, c, 0), axes) / count
        apart = apart | (chosen & (c != jnp.expand_dims(mean, axes)))
        result.append(mean)
    ctx.report(eqn.primitive.name, apart & jnp.expand_dims(count > 1, axes))
    return trimmed(result)


def _first_in_order(ctx: Context, eqn: JaxprEqn, x: Series, best: Array, chosen: Array) -> Series:
    """Among equals the next coefficient decides, as for words in a dictionary."""
    axes = eqn.params["axes"]
    lowest = -jnp.inf if eqn.primitive.name == "reduce_max" else jnp.inf
    result: list[Array | None] = [best]
    for j, c in enumerate(x[1:], start=1):
        signed = (jnp.zeros_like(x[0]) if c is None else c) * ctx.side**j
        winner = bind(eqn, jnp.where(chosen, signed, lowest))
        chosen = chosen & (signed == jnp.expand_dims(winner, axes))
        result.append(jnp.where(jnp.isnan(best), best, winner * ctx.side**j))
    return trimmed(result)


KINKS: dict[str, Rule] = {
    **dict.fromkeys(("gt", "lt", "ge", "le", "eq", "ne"), comparison),
    **dict.fromkeys(("max", "min"), larger),
    **dict.fromkeys(("sign", "floor", "ceil", "round"), step),
    **dict.fromkeys(("reduce_max", "reduce_min"), reduced_max),
    **dict.fromkeys(("argmax", "argmin"), best_place),
    "truncate": truncated,
}
