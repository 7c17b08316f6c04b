# SPDX-License-Identifier: Apache-2.0
"""A traced function as a flat list of steps, so that a step's result can be perturbed."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import Jaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import jit_p, remat_p
from jaxtyping import Array

Name = int
"""A value of a program: each is assigned once, so a number names it."""


class Step(NamedTuple):
    """One primitive operation."""

    eqn: JaxprEqn
    alone: Jaxpr  # a program of this one equation, for JAX to evaluate
    operands: tuple[Name | Literal, ...]  # one for each of `eqn.invars`
    results: tuple[Name, ...]  # one for each result that is kept

    def operand(self, side: int) -> ShapedArray:
        """Shape and dtype of an operand."""
        return _shaped(self.eqn.invars[side])

    def result(self) -> ShapedArray:
        """Shape and dtype of the first result."""
        return _shaped(self.eqn.outvars[0])


class Program(NamedTuple):
    """A function of arrays as steps in order, the nested calls of `jax.jit` written out."""

    arguments: tuple[Name, ...]
    sizes: tuple[int, ...]  # entries of each argument
    constants: dict[Name, Any]
    steps: tuple[Step, ...]
    results: tuple[Name | Literal, ...]

    def run(
        self, arguments: Sequence[Array], shifts: dict[int, Array] | None = None
    ) -> dict[Name, Any]:
        """Every value of the program, with `shifts[k]` added to the first result of step k."""
        values = dict(self.constants)
        values.update(zip(self.arguments, arguments, strict=True))
        for k, step in enumerate(self.steps):
            results = _evaluate(step, values)
            if shifts is not None and k in shifts:
                results[0] = results[0] + shifts[k]
            values.update(zip(step.results, results, strict=True))
        return values


def trace(f: Callable[..., Array], *arguments: Any) -> Program:
    """The program of `f` at arguments of these shapes."""
    closed = jax.make_jaxpr(f)(*arguments)
    fresh = itertools.count()
    bound: dict[Var, Any] = {var: next(fresh) for var in closed.jaxpr.constvars}
    constants = dict(zip(bound.values(), closed.consts, strict=True))
    bound.update({var: next(fresh) for var in closed.jaxpr.invars})
    names = tuple(bound[var] for var in closed.jaxpr.invars)
    sizes = tuple(_shaped(var).size for var in closed.jaxpr.invars)
    steps, results = _inline(closed.jaxpr, bound, constants, fresh)
    return Program(names, sizes, constants, tuple(steps), results)


def _inline(
    jaxpr: Jaxpr,
    bound: dict[Var, Any],  # a name, or a literal for an argument that is one
    constants: dict[Name, Any],
    fresh: Iterator[Name],
) -> tuple[list[Step], tuple[Name | Literal, ...]]:
    """The steps of `jaxpr`, whose inputs have the names `bound`, under fresh names."""
    steps = []

    def name(atom):
        return atom if isinstance(atom, Literal) else bound[atom]

    for eqn in jaxpr.eqns:
        operands = tuple(name(atom) for atom in eqn.invars)
        if eqn.primitive in (jit_p, remat_p):
            inner, consts = _called(eqn)
            # One inner jaxpr may be called many times: its variables get new names at each call.
            scope: dict[Var, Any] = {var: next(fresh) for var in inner.constvars}
            constants.update(zip(scope.values(), consts, strict=True))
            scope.update(zip(inner.invars, operands, strict=True))
            nested, results = _inline(inner, scope, constants, fresh)
            steps.extend(nested)
            bound.update(zip(eqn.outvars, results, strict=True))
        else:
            kept = [var for var in eqn.outvars if _is_kept(var)]
            bound.update({var: next(fresh) for var in kept})
            results = tuple(bound[var] for var in kept)
            steps.append(Step(eqn, _alone(jaxpr, eqn, kept), operands, results))
    return steps, tuple(name(atom) for atom in jaxpr.outvars)


def _shaped(atom: Var | Literal) -> ShapedArray:
    aval = atom.aval
    assert isinstance(aval, ShapedArray)  # programs of networks hold nothing but arrays
    return aval


def _called(eqn: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]]:
    inner = eqn.params["jaxpr"]
    return (inner.jaxpr, inner.consts) if eqn.primitive is jit_p else (inner, ())


def _is_kept(var: Var) -> bool:
    return type(var).__name__ != "DropVar"


def _variables(eqn: JaxprEqn) -> list[Var]:
    return list(dict.fromkeys(atom for atom in eqn.invars if not isinstance(atom, Literal)))


def _alone(jaxpr: Jaxpr, eqn: JaxprEqn, kept: Sequence[Var]) -> Jaxpr:
    return jaxpr.replace(constvars=[], invars=_variables(eqn), outvars=list(kept), eqns=[eqn])


def _evaluate(step: Step, values: dict[Name, Any]) -> list[Any]:
    # Through jax.core.eval_jaxpr, not primitive.bind: how primitives that carry functions
    # (custom_jvp, scan) are bound changes between versions of JAX, and is not public.
    pairs = zip(step.eqn.invars, step.operands, strict=True)
    names = {var: name for var, name in pairs if not isinstance(var, Literal)}
    inputs = (read(values, names[var]) for var in step.alone.invars)
    return list(eval_jaxpr(step.alone, (), *inputs))


def read(values: dict[Name, Any], name: Name | Literal) -> Any:
    """The value of that name; a literal is its own value."""
    return name.val if isinstance(name, Literal) else values[name]
