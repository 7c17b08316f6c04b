# SPDX-License-Identifier: Apache-2.0
"""Loops and branches over series: each float is carried with all its coefficients."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn
from jaxtyping import Array

from unlazy.special.array_series import Series, dense
from unlazy.taylor.context import Context
from unlazy.taylor.linear_rules import Rule


def _filled(ctx: Context, values: Sequence[Series]) -> list[Series]:
    """Write zeros out, so that every step of a loop and every branch has the same structure."""
    return [
        dense(s, ctx.order) if jnp.issubdtype(jnp.result_type(s[0]), jnp.inexact) else s[:1]
        for s in values
    ]


def scan(ctx: Context, eqn: JaxprEqn, *operands: Series) -> list[Series]:
    """A loop of known length."""
    closed = eqn.params["jaxpr"]
    constants, count = _layout(eqn, closed)
    fixed = list(operands[:constants])

    def body(carry: tuple[list[Series], Array], xs: list[Series]) -> Any:
        values, tied = carry
        within = ctx.inner()
        results = ctx.evaluate(within, closed, [*fixed, *values, *xs])
        return (_filled(ctx, results[:count]), tied | within.any_tie()), results[count:]

    start = _filled(ctx, operands[constants : constants + count])
    (last, tied), collected = lax.scan(
        body,
        (start, jnp.zeros((), bool)),
        list(operands[constants + count :]),
        length=eqn.params["length"],
        reverse=eqn.params["reverse"],
        unroll=eqn.params["unroll"],
    )
    ctx.report("scan", tied)
    return [*last, *collected]


def _layout(eqn: JaxprEqn, closed: ClosedJaxpr) -> tuple[int, int]:
    # By ranks, because the names of the parameters that say so changed between versions of JAX:
    # what is scanned over, or collected, has one axis more outside of the body.
    outside, inside = ([_rank(v) for v in vs] for vs in (eqn.outvars, closed.jaxpr.outvars))
    carried = sum(a == b for a, b in zip(outside, inside, strict=True))
    outside, inside = ([_rank(v) for v in vs] for vs in (eqn.invars, closed.jaxpr.invars))
    scanned = sum(a != b for a, b in zip(outside, inside, strict=True))
    return len(inside) - carried - scanned, carried


def _rank(atom: Any) -> int:
    return len(atom.aval.shape)


def while_loop(ctx: Context, eqn: JaxprEqn, *operands: Series) -> list[Series]:
    """A loop that ends when the values at t = 0 say so."""
    condition, body = eqn.params["cond_jaxpr"], eqn.params["body_jaxpr"]
    first, second = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    for_condition = [s[:1] for s in operands[:first]]
    for_body = list(operands[first : first + second])

    def goes_on(carry: tuple[list[Series], Array]) -> Array:
        values = [s[:1] for s in carry[0]]
        (result,) = ctx.evaluate(ctx.inner(), condition, [*for_condition, *values])
        assert result[0] is not None
        return result[0]

    def step(carry: tuple[list[Series], Array]) -> tuple[list[Series], Array]:
        values, tied = carry
        within = ctx.inner()
        results = ctx.evaluate(within, body, [*for_body, *values])
        return _filled(ctx, results), tied | within.any_tie()

    start = _filled(ctx, operands[first + second :])
    values, tied = lax.while_loop(goes_on, step, (start, jnp.zeros((), bool)))
    ctx.report("while", tied)
    return values


def cond(ctx: Context, eqn: JaxprEqn, index: Series, *operands: Series) -> list[Series]:
    """The branch that the values at t = 0 choose."""

    def branch(closed: ClosedJaxpr) -> Any:
        def run(values: list[Series]) -> tuple[list[Series], Array]:
            within = ctx.inner()
            results = _filled(ctx, ctx.evaluate(within, closed, values))
            return results, within.any_tie()

        return run

    branches = [branch(closed) for closed in eqn.params["branches"]]
    results, tied = lax.switch(index[0].astype(int), branches, list(operands))
    ctx.report("cond", tied)
    return results


CONTROL: dict[str, Rule] = {"scan": scan, "while": while_loop, "cond": cond}
