# SPDX-License-Identifier: Apache-2.0
"""Which recurrence belongs to which entrywise operation of JAX."""

from collections.abc import Callable

import jax.numpy as jnp
from jax.extend.core import JaxprEqn

from unlazy.taylor import recurrences
from unlazy.taylor.context import Context
from unlazy.taylor.linear_rules import Rule, alike
from unlazy.taylor.series import Series, is_moving, product


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
    if is_moving(exponent):  # x^r = exp(r log x), as JAX differentiates it
        power = product(exponent, recurrences.log(x, ctx.order), ctx.order)
        return (jnp.power(x[0], exponent[0]), *recurrences.exp(power, ctx.order)[1:])
    return recurrences.power(x, exponent[0].astype(x[0].dtype), ctx.order)


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
