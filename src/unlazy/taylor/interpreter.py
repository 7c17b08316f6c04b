# SPDX-License-Identifier: Apache-2.0
r"""Evaluation of a traced function on power series, operation by operation.

An operation without a rule of its own is differentiated by JAX: $y' = J(x)\, x'$ is again a traced
function, of the series of $x$ and $x'$, and is evaluated to one order less. Custom derivatives are
followed in the same way, so that `jax.nn.relu` has slope 0 at 0 as under `jax.grad`.

Coefficients left out at the end of a series are zeros or not known. Values are compared only as far
as both are known: else x and a copy of it that was cut earlier would seem to differ.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import custom_vjp_call_p
from jaxtyping import Array

from unlazy.core.errors import UnlazyError
from unlazy.core.jaxprs import Program, Step, flattened, is_float, read, shaped, trace
from unlazy.special.array_series import Series, derivative, is_moving, primitive_of, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.control import CONTROL
from unlazy.taylor.kinks import KINKS
from unlazy.taylor.linear_rules import LINEAR, SOLVING, Rule
from unlazy.taylor.maxima import MAXIMA
from unlazy.taylor.smooth_rules import SMOOTH

_CHOICES: dict[str, Rule] = {**KINKS, **MAXIMA}
_RULES: dict[str, Rule] = {**LINEAR, **SMOOTH, **CONTROL, **SOLVING, **_CHOICES}
_AT_ORDER_ZERO = frozenset((*LINEAR, *_CHOICES))
_CUT = frozenset({"mul", "div", "dot_general", "conv_general_dilated"})  # at the order computed
_FLAT = frozenset({"stop_gradient", "nextafter", "is_finite"})  # no derivative but zero
_REAL_ONLY = frozenset({"sign", "max", "min"})  # another function of complex numbers


class UnsupportedOperationError(UnlazyError, NotImplementedError):
    """An operation of the network that cannot be differentiated."""


class _Value(NamedTuple):
    """A series, and the order up to which it is known: infinite for a line or a constant."""

    series: Series
    known: int | float


def taylor_coefficients(
    function: Callable[..., Array], order: int, arguments: Sequence[Series], side: int = 0
) -> tuple[Series, Context]:
    """The series of `function` of series, with the ties met on the way."""
    ctx = Context(order, evaluate, side)
    program = trace(function, *(s[0] for s in arguments))
    (result,) = _run(ctx, program, [_Value(s, math.inf) for s in arguments])
    return trimmed(result.series[: order + 1]), ctx


def evaluate(ctx: Context, closed: ClosedJaxpr, arguments: Sequence[Series]) -> list[Series]:
    """The series of the results of a program, from arguments known to the order computed."""
    values = [
        _cut(s, ctx.order if jnp.issubdtype(jnp.result_type(s[0]), jnp.inexact) else math.inf)
        for s in arguments
    ]
    return [value.series for value in _run(ctx, flattened(closed), values)]


def _run(ctx: Context, program: Program, arguments: Sequence[_Value]) -> list[_Value]:
    # Nothing but what is needed: the program of a derivative computes the value too, and that of a
    # value at order k would compute the derivative's at k - 1, and so on.
    values = program.run(
        arguments,
        lambda _, step, operands: _apply(ctx, step, operands),
        constant=_constant,
        only=program.needed(),
    )
    return [read(values, name, _constant) for name in program.results]


def _apply(ctx: Context, step: Step, operands: list[_Value]) -> list[_Value]:
    name = _name(step.eqn)
    known = min((value.known for value in operands), default=math.inf)
    if name in _CHOICES:
        operands = [_cut(value.series, known) for value in operands]
        ctx = ctx.knowing(known)
    last = _last_known(ctx, name, operands, known)
    pairs = zip(step.eqn.outvars, _results(ctx, step, name, operands), strict=True)
    return [_cut(s, last if is_float(var) else math.inf) for var, s in pairs]


def _results(ctx: Context, step: Step, name: str, operands: list[_Value]) -> Sequence[Series]:
    series, eqn = [value.series for value in operands], step.eqn
    rule = None if name in _REAL_ONLY and _is_complex(eqn.invars[0]) else _RULES.get(name)
    flat = name in _FLAT or not (name in KINKS or any(is_float(var) for var in eqn.outvars))
    # At order 0 only the operations that may kink are told what moves; the rest is evaluated.
    flat |= ctx.order == 0 and (rule is None or name not in _AT_ORDER_ZERO)
    if flat or not (ctx.blind or any(is_moving(s) for s in series)):
        return [(c,) for c in step(*(s[0] for s in series))]
    if rule is None:
        return _by_derivative(ctx, step, operands)
    result = rule(ctx, eqn, *series)
    return result if isinstance(result, list) else [result]


def _name(eqn: JaxprEqn) -> str:
    """The name of the rule; a conversion of floats to integers truncates, and has its own."""
    name = eqn.primitive.name
    if name == "convert_element_type" and is_float(eqn.invars[0]) and not is_float(eqn.outvars[0]):
        return "truncate"
    return name


def _last_known(ctx: Context, name: str, operands: list[_Value], known: int | float) -> int | float:
    """The order up to which the result is known, from that of the operands."""
    if name in _FLAT:
        return math.inf
    if (name in _AT_ORDER_ZERO and name not in _CUT) or not any(
        is_moving(value.series) for value in operands
    ):
        return known
    return min(known, ctx.order)


def _cut(s: Series, known: int | float) -> _Value:
    return _Value(s if known >= len(s) - 1 else trimmed(s[: int(known) + 1]), known)


def _constant(c: Any) -> _Value:
    return _Value((jnp.asarray(c),), math.inf)


def _by_derivative(ctx: Context, step: Step, operands: list[_Value]) -> list[Series]:
    """The results from JAX's derivative of the operation, which is a series of one order less."""
    values = [value.series[0] for value in operands]
    start = step(*values)
    chosen = [k for k, value in enumerate(operands) if is_moving(value.series)]
    floats = [k for k, var in enumerate(step.eqn.outvars) if is_float(var)]
    try:
        closed = jax.make_jaxpr(_derivative_of(step, chosen, floats))(
            values, [values[k] for k in chosen]
        )
    except (NotImplementedError, TypeError, ValueError) as error:
        raise UnsupportedOperationError(
            f"`f` must be made of operations that JAX can differentiate, got "
            f"{step.eqn.primitive.name!r}, which it cannot: {error}. Write that part with "
            "jax.numpy, or keep the parameters that reach it fixed with None in `delta`."
        ) from error
    velocities = [_Value(derivative(operands[k].series), operands[k].known - 1) for k in chosen]
    rates = _run(ctx.lowered(), flattened(closed), [*operands, *velocities])
    results: list[Series] = [(value,) for value in start]
    for k, rate in zip(floats, rates, strict=True):
        results[k] = primitive_of(trimmed(rate.series[: ctx.order]), start[k])
    return results


def _derivative_of(step: Step, chosen: list[int], floats: list[int]) -> Callable[..., Any]:
    """The velocities of the `floats` among the results, from those of the `chosen` operands."""
    slope = _transposed if step.eqn.primitive is custom_vjp_call_p else _forward

    def program(values: list[Array], velocities: list[Array]) -> Any:
        def of_moving(*moving: Array) -> list[Array]:
            filled = list(values)
            for k, value in zip(chosen, moving, strict=True):
                filled[k] = value
            results = step(*filled)
            return [results[k] for k in floats]

        return slope(of_moving, [values[k] for k in chosen], velocities)

    return program


def _forward(function: Callable[..., Any], values: list[Array], velocities: list[Array]) -> Any:
    return jax.jvp(function, values, velocities)[1]


def _transposed(function: Callable[..., Any], values: list[Array], velocities: list[Array]) -> Any:
    # A custom_vjp has no forward derivative; its reverse one, linear in the cotangent, is turned.
    results, pullback = jax.vjp(function, *values)
    return jax.linear_transpose(pullback, results)(tuple(velocities))[0]


def _is_complex(atom: Var | Literal) -> bool:
    return jnp.issubdtype(shaped(atom).dtype, jnp.complexfloating)
