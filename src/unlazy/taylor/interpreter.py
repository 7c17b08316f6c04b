# SPDX-License-Identifier: Apache-2.0
r"""Evaluates a traced function on power series, operation by operation.

An operation without a rule of its own is differentiated by JAX: $y' = J(x)\, x'$ is again a traced
function, of the series of $x$ and $x'$, and is evaluated to one order less. Custom derivatives are
followed in the same way, so that `jax.nn.relu` has slope 0 at 0 as under `jax.grad`.

Coefficients left out at the end of a series are zeros or not known. Values are compared only as far
as both are known: else x and a copy of it that was cut earlier would seem to differ.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import closed_call_p, custom_vjp_call_p, jit_p, remat_p
from jaxtyping import Array

from unlazy.special.array_series import Series, derivative, is_moving, primitive_of, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.control import CONTROL
from unlazy.taylor.failures import UnsupportedOperationError
from unlazy.taylor.kinks import KINKS
from unlazy.taylor.linear_rules import LINEAR, Rule
from unlazy.taylor.pooling import POOLING
from unlazy.taylor.scattering import SCATTERING
from unlazy.taylor.smooth_rules import SMOOTH
from unlazy.taylor.solving import SOLVING

_CHOICES: dict[str, Rule] = {**KINKS, **POOLING, **SCATTERING}
_RULES: dict[str, Rule] = {**LINEAR, **SMOOTH, **CONTROL, **SOLVING, **_CHOICES}
_AT_ORDER_ZERO = frozenset((*LINEAR, *_CHOICES))
_CUT = frozenset({"mul", "div", "dot_general", "conv_general_dilated"})  # at the order computed
_FLAT = frozenset({"stop_gradient", "nextafter", "is_finite"})  # no derivative but zero
_REAL_ONLY = frozenset({"sign", "max", "min"})  # another function of complex numbers


class _Value(NamedTuple):
    """A series, and the order up to which it is known: infinite for a line or a constant."""

    series: Series
    known: int | float


def taylor_coefficients(
    function: Callable[..., Array], order: int, arguments: Sequence[Series], side: int = 0
) -> tuple[Series, Context]:
    """The series of `function` of series, with the ties met on the way."""
    ctx = Context(order, evaluate, side)
    closed = jax.make_jaxpr(function)(*(s[0] for s in arguments))
    (result,) = _run(ctx, closed.jaxpr, closed.consts, [_Value(s, math.inf) for s in arguments])
    return trimmed(result.series[: order + 1]), ctx


def evaluate(
    ctx: Context, jaxpr: Jaxpr, consts: Sequence[Any], arguments: Sequence[Series]
) -> list[Series]:
    """The series of the results of a program, from arguments known to the order computed."""
    values = [
        _cut(s, ctx.order if jnp.issubdtype(jnp.result_type(s[0]), jnp.inexact) else math.inf)
        for s in arguments
    ]
    return [value.series for value in _run(ctx, jaxpr, consts, values)]


def _run(
    ctx: Context,
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    arguments: Sequence[_Value],
    live: Sequence[bool] | None = None,
) -> list[_Value]:
    """The results of a program; of those that are not `live`, anything."""
    nothing = _constant(jnp.zeros(()))  # in place of a result that is not live
    values: dict[Var, _Value] = {}
    values.update(zip(jaxpr.constvars, (_constant(jnp.asarray(c)) for c in consts), strict=True))
    values.update(zip(jaxpr.invars, arguments, strict=True))

    def read(atom: Var | Literal) -> _Value:
        if isinstance(atom, Literal):
            return _constant(jnp.asarray(atom.val, _shaped(atom).dtype))
        return values.get(atom, nothing)

    for eqn, wanted in _needed(jaxpr, live):
        operands = [read(atom) for atom in eqn.invars]
        values.update(zip(eqn.outvars, _apply(ctx, jaxpr, eqn, operands, wanted), strict=True))
    return [read(atom) for atom in jaxpr.outvars]


def _needed(jaxpr: Jaxpr, live: Sequence[bool] | None) -> Iterator[tuple[JaxprEqn, list[bool]]]:
    """The equations on which a result depends, and which of theirs are needed.

    The program of a derivative computes the value too, and that of a value at order k would compute
    the derivative's at k - 1, and so on.
    """
    flags = [True] * len(jaxpr.outvars) if live is None else live
    pairs = zip(jaxpr.outvars, flags, strict=True)
    wanted = {atom for atom, yes in pairs if yes and not isinstance(atom, Literal)}
    kept = []
    for eqn in reversed(jaxpr.eqns):
        uses = [var in wanted for var in eqn.outvars]
        if eqn.effects or any(uses):
            kept.append((eqn, uses))
            wanted.update(atom for atom in eqn.invars if not isinstance(atom, Literal))
    return reversed(kept)


def _apply(
    ctx: Context, jaxpr: Jaxpr, eqn: JaxprEqn, operands: list[_Value], live: list[bool]
) -> Sequence[_Value]:
    if eqn.primitive in (jit_p, remat_p, closed_call_p):
        inner, consts = _called(eqn)
        return _run(ctx, inner, consts, operands, live)
    name = _name(eqn)
    known = min((value.known for value in operands), default=math.inf)
    if name in _CHOICES:
        operands = [_cut(value.series, known) for value in operands]
        ctx = ctx.knowing(known)
    last = _last_known(ctx, name, operands, known)
    pairs = zip(eqn.outvars, _results(ctx, jaxpr, eqn, name, operands), strict=True)
    return [_cut(s, last if _is_float(var) else math.inf) for var, s in pairs]


def _results(
    ctx: Context, jaxpr: Jaxpr, eqn: JaxprEqn, name: str, operands: list[_Value]
) -> Sequence[Series]:
    series = [value.series for value in operands]
    rule = None if name in _REAL_ONLY and _is_complex(eqn.invars[0]) else _RULES.get(name)
    flat = name in _FLAT or not (name in KINKS or any(_is_float(var) for var in eqn.outvars))
    # At order 0 only the operations that may kink are told what moves; the rest is evaluated.
    flat |= ctx.order == 0 and (rule is None or name not in _AT_ORDER_ZERO)
    if flat or not (ctx.blind or any(is_moving(s) for s in series)):
        return [(c,) for c in _alone(jaxpr, eqn)(*(s[0] for s in series))]
    if rule is None:
        return _by_derivative(ctx, jaxpr, eqn, operands)
    result = rule(ctx, eqn, *series)
    return result if isinstance(result, list) else [result]


def _name(eqn: JaxprEqn) -> str:
    """The name of the operation; a conversion of floats to integers cuts off, a rule of its own."""
    name = eqn.primitive.name
    if (
        name == "convert_element_type"
        and _is_float(eqn.invars[0])
        and not _is_float(eqn.outvars[0])
    ):
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


def _constant(c: Array) -> _Value:
    return _Value((c,), math.inf)


def _by_derivative(
    ctx: Context, jaxpr: Jaxpr, eqn: JaxprEqn, operands: list[_Value]
) -> list[Series]:
    """Through the derivative that JAX has for the operation, as a series of one order less."""
    values = [value.series[0] for value in operands]
    start = _alone(jaxpr, eqn)(*values)
    chosen = [k for k, value in enumerate(operands) if is_moving(value.series)]
    floats = [k for k, var in enumerate(eqn.outvars) if _is_float(var)]
    program = _derivative_of(jaxpr, eqn, chosen, floats)
    try:
        closed = jax.make_jaxpr(program)(values, [values[k] for k in chosen])
    except (NotImplementedError, TypeError, ValueError) as error:
        raise UnsupportedOperationError(
            f"`f` must be made of operations that JAX can differentiate, got "
            f"{eqn.primitive.name!r}, which it cannot: {error}. Write that part with jax.numpy, or "
            "keep the parameters that reach it fixed with None in `delta`."
        ) from error
    velocities = [_Value(derivative(operands[k].series), operands[k].known - 1) for k in chosen]
    rates = _run(ctx.lowered(), closed.jaxpr, closed.consts, [*operands, *velocities])
    results: list[Series] = [(value,) for value in start]
    for k, rate in zip(floats, rates, strict=True):
        results[k] = primitive_of(trimmed(rate.series[: ctx.order]), start[k])
    return results


def _derivative_of(
    jaxpr: Jaxpr, eqn: JaxprEqn, chosen: list[int], floats: list[int]
) -> Callable[..., Any]:
    """The velocities of the `floats` among the results, from those of the `chosen` operands."""
    function = _alone(jaxpr, eqn)
    slope = _transposed if eqn.primitive is custom_vjp_call_p else _forward

    def program(values: list[Array], velocities: list[Array]) -> Any:
        def of_moving(*moving: Array) -> list[Array]:
            filled = list(values)
            for k, value in zip(chosen, moving, strict=True):
                filled[k] = value
            results = function(*filled)
            return [results[k] for k in floats]

        return slope(of_moving, [values[k] for k in chosen], velocities)

    return program


def _forward(function: Callable[..., Any], values: list[Array], velocities: list[Array]) -> Any:
    return jax.jvp(function, values, velocities)[1]


def _transposed(function: Callable[..., Any], values: list[Array], velocities: list[Array]) -> Any:
    # A custom_vjp has no forward derivative; its reverse one, linear in the cotangent, is turned.
    results, pullback = jax.vjp(function, *values)
    return jax.linear_transpose(pullback, results)(tuple(velocities))[0]


def _alone(jaxpr: Jaxpr, eqn: JaxprEqn) -> Callable[..., list[Any]]:
    """The operation of one equation, as a function of its operands."""
    # Through jax.core.eval_jaxpr, not primitive.bind: how primitives that carry functions
    # (custom_jvp, scan) are bound changes between versions of JAX, and is not public.
    variables = list(dict.fromkeys(atom for atom in eqn.invars if not isinstance(atom, Literal)))
    positions = [eqn.invars.index(var) for var in variables]
    program = jaxpr.replace(constvars=[], invars=variables, outvars=eqn.outvars, eqns=[eqn])

    def function(*operands: Any) -> list[Any]:
        return list(eval_jaxpr(program, (), *(operands[k] for k in positions)))

    return function


def _called(eqn: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]]:
    inner = eqn.params["call_jaxpr" if eqn.primitive is closed_call_p else "jaxpr"]
    return (inner, ()) if isinstance(inner, Jaxpr) else (inner.jaxpr, inner.consts)


def _shaped(atom: Var | Literal) -> ShapedArray:
    assert isinstance(atom.aval, ShapedArray)  # programs of networks hold nothing but arrays
    return atom.aval


def _is_float(atom: Var | Literal) -> bool:
    return jnp.issubdtype(_shaped(atom).dtype, jnp.inexact)


def _is_complex(atom: Var | Literal) -> bool:
    return jnp.issubdtype(_shaped(atom).dtype, jnp.complexfloating)
