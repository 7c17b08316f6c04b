# SPDX-License-Identifier: Apache-2.0
"""Traced functions as flat lists of steps, to be searched or evaluated by rules of one's own.

Calls of `jax.jit`, `jax.checkpoint` and the like are written out. Operations with a derivative of
their own (`custom_jvp`) and loops and branches stay single steps: whoever evaluates a program
decides what they mean.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import ShapedArray, eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn, Literal, Var
from jax.extend.core.primitives import closed_call_p, jit_p, remat_p

Name = int
"""A value of a program: each is assigned once, so a number names it."""


class Step(NamedTuple):
    """One primitive operation."""

    eqn: JaxprEqn
    operands: tuple[Name | Literal, ...]  # one per `eqn.invars`
    results: tuple[Name, ...]  # one per `eqn.outvars`
    parent: Jaxpr  # the program that the equation is from

    def __call__(self, *operands: Any) -> list[Any]:
        """The results, computed by JAX itself."""
        # Through jax.core.eval_jaxpr, not primitive.bind: how primitives that carry functions
        # (custom_jvp, scan) are bound changes between versions of JAX, and is not public.
        eqn = self.eqn
        variables = list(dict.fromkeys(v for v in eqn.invars if not isinstance(v, Literal)))
        alone = self.parent.replace(constvars=[], invars=variables, outvars=eqn.outvars, eqns=[eqn])
        return list(eval_jaxpr(alone, (), *(operands[eqn.invars.index(v)] for v in variables)))

    def operand(self, side: int) -> ShapedArray:
        """Shape and dtype of an operand."""
        return shaped(self.eqn.invars[side])

    def result(self) -> ShapedArray:
        """Shape and dtype of the first result."""
        return shaped(self.eqn.outvars[0])


Rule = Callable[[int, Step, list[Any]], Sequence[Any]]
"""Of the number of a step, the step and its operands: the results."""


class Program(NamedTuple):
    """A function of arrays as steps in order."""

    arguments: tuple[Name, ...]
    sizes: tuple[int, ...]  # entries of each argument
    constants: dict[Name, Any]
    steps: tuple[Step, ...]
    results: tuple[Name | Literal, ...]

    def run(
        self,
        arguments: Sequence[Any],
        rule: Rule = lambda _, step, operands: step(*operands),
        constant: Callable[[Any], Any] = lambda array: array,
        only: Sequence[int] | None = None,
    ) -> dict[Name, Any]:
        """Every value of the program, with its steps evaluated by `rule`.

        Args:
            arguments: values of any kind that the rule knows.
            rule: by default JAX's own evaluation, of arrays.
            constant: makes a value of an array.
            only: the numbers of the steps to evaluate; None for all.
        """
        values = {name: constant(array) for name, array in self.constants.items()}
        values.update(zip(self.arguments, arguments, strict=True))
        for k in range(len(self.steps)) if only is None else only:
            step = self.steps[k]
            operands = [read(values, name, constant) for name in step.operands]
            values.update(zip(step.results, rule(k, step, operands), strict=True))
        return values

    def needed(self) -> list[int]:
        """The numbers of the steps on which a result depends, or that have an effect."""
        wanted, kept = set(map(_key, self.results)), []
        for k in reversed(range(len(self.steps))):
            step = self.steps[k]
            if step.eqn.effects or not wanted.isdisjoint(step.results):
                kept.append(k)
                wanted.update(map(_key, step.operands))
        return kept[::-1]


def read(
    values: dict[Name, Any],
    name: Name | Literal,
    constant: Callable[[Any], Any] = lambda array: array,
) -> Any:
    """The value of that name; a literal is its own value."""
    if isinstance(name, Literal):
        return constant(np.asarray(name.val, shaped(name).dtype))
    return values[name]


def trace(f: Callable[..., Any], *arguments: Any) -> Program:
    """The program of `f` at arguments of these shapes."""
    return flattened(jax.make_jaxpr(f)(*arguments))


def flattened(closed: ClosedJaxpr) -> Program:
    """The program of a traced function."""
    jaxpr, fresh = closed.jaxpr, itertools.count()
    bound: dict[Var, Any] = {var: next(fresh) for var in jaxpr.constvars}
    constants = dict(zip(bound.values(), closed.consts, strict=True))
    bound.update({var: next(fresh) for var in jaxpr.invars})
    names = tuple(bound[var] for var in jaxpr.invars)
    sizes = tuple(shaped(var).size for var in jaxpr.invars)
    steps, results = _inline(jaxpr, bound, constants, fresh)
    return Program(names, sizes, constants, tuple(steps), results)


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """All equations, those within loops, branches and custom derivatives included."""
    for eqn in jaxpr.eqns:
        yield eqn
        for inner in programs_in(eqn):
            yield from equations(inner)


def programs_in(eqn: JaxprEqn) -> Iterator[Jaxpr]:
    """The programs that an equation carries."""
    for value in eqn.params.values():
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, ClosedJaxpr):
                yield part.jaxpr
            elif isinstance(part, Jaxpr):
                yield part


def shaped(atom: Var | Literal) -> ShapedArray:
    """Shape and dtype of a value."""
    assert isinstance(atom.aval, ShapedArray)  # programs of networks hold nothing but arrays
    return atom.aval


def is_float(atom: Var | Literal) -> bool:
    """Whether a value is an array of floats, real or complex."""
    dtype = getattr(atom.aval, "dtype", None)
    return dtype is not None and jnp.issubdtype(dtype, jnp.inexact)


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
        if eqn.primitive in (jit_p, remat_p, closed_call_p):
            inner, consts = _called(eqn)
            # One inner jaxpr may be called many times: its variables get new names at each call.
            scope: dict[Var, Any] = {var: next(fresh) for var in inner.constvars}
            constants.update(zip(scope.values(), consts, strict=True))
            scope.update(zip(inner.invars, operands, strict=True))
            nested, results = _inline(inner, scope, constants, fresh)
            steps.extend(nested)
            bound.update(zip(eqn.outvars, results, strict=True))
        else:
            results = tuple(next(fresh) for _ in eqn.outvars)
            bound.update(zip(eqn.outvars, results, strict=True))
            steps.append(Step(eqn, operands, results, jaxpr))
    return steps, tuple(name(atom) for atom in jaxpr.outvars)


def _called(eqn: JaxprEqn) -> tuple[Jaxpr, Sequence[Any]]:
    inner = eqn.params["call_jaxpr" if eqn.primitive is closed_call_p else "jaxpr"]
    return (inner, ()) if isinstance(inner, Jaxpr) else (inner.jaxpr, inner.consts)


def _key(name: Name | Literal) -> Any:
    return None if isinstance(name, Literal) else name
