# SPDX-License-Identifier: Apache-2.0
"""The recurrence of each smooth entrywise operation of JAX."""

from collections.abc import Callable

import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array

from unlazy.special import recurrences
from unlazy.special.array_series import Series, at, is_moving, product, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.kinks import moves
from unlazy.taylor.linear_rules import Rule, alike


def _entrywise(function: Callable[[Series, int], Series]) -> Rule:
    def rule(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
        del eqn
        return function(x, ctx.order)

    return rule


def _square(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    del eqn
    return product(x, x, ctx.order)


def _integer_pow(ctx: Context, eqn: JaxprEqn, x: Series) -> Series:
    return recurrences.integer_power(x, eqn.params["y"], ctx.order)


def _pow(ctx: Context, eqn: JaxprEqn, x: Series, exponent: Series) -> Series:
    x, exponent = alike(eqn, x, exponent)
    fixed = recurrences.power(x, exponent[0].astype(x[0].dtype), ctx.order)
    if not is_moving(exponent):
        return fixed
    # x^r = exp(r log x), as JAX differentiates it; but 0^r stays 0 whatever the exponent does, and
    # so does a negative base's power where the exponent's movement is zero.
    still = (x[0] == 0) | ~moves(exponent)
    positive = (jnp.where(still, jnp.ones_like(x[0]), x[0]), *x[1:])
    log = product(exponent, recurrences.log(positive, ctx.order), ctx.order)
    both = recurrences.exp(log, ctx.order)
    result: list[Array | None] = [fixed[0]]
    for j in range(1, ctx.order + 1):
        # Beyond the exponent's order, a base that leaves 0 leaves it like t^r log t.
        none = (x[0] == 0) & moves(x) & moves(exponent) & (exponent[0] < j)
        kept, moved = (
            jnp.zeros_like(x[0]) if c is None else c for c in (at(fixed, j), at(both, j))
        )
        result.append(jnp.where(none, jnp.nan, jnp.where(still, kept, moved)))
    return trimmed(result)


SMOOTH: dict[str, Rule] = {
    **{
        name: _entrywise(getattr(recurrences, name))
        for name in (
            *("exp", "exp2", "expm1", "log", "log1p", "tanh", "tan", "logistic", "sin", "cos"),
            *("sinh", "cosh", "sqrt", "rsqrt", "cbrt", "erf", "erfc", "atan", "asin", "acos"),
            *("asinh", "acosh", "atanh"),
        )
    },
    "square": _square,
    "integer_pow": _integer_pow,
    "pow": _pow,
}
