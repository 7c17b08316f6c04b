# SPDX-License-Identifier: Apache-2.0
"""Convolutions in loops, at the speed that they have outside of them.

On a processor, XLA hands a convolution to its library only if the axes are in one order: samples,
pixels, channels. Outside of loops it transposes the others itself; inside, it computes them entry
by entry (jax issue 12868). That is 30 to 50 times slower, and no choice of the network's order
avoids it, since the gradient of a convolution is one in another order. On two cores 16 steps of a
small CNN took 12.6 s in a loop, and 0.34 s as single steps.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import eval_jaxpr
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn
from jax.extend.core.primitives import conv_general_dilated_p
from jax.lax import ConvDimensionNumbers, conv_general_dilated
from jaxtyping import Array

from unlazy.core.jaxprs import Step, equations, flattened, programs_in, read

P = ParamSpec("P")
T = TypeVar("T")


def looped(body: Callable[P, T]) -> Callable[P, T]:
    """The body of a loop, with its convolutions in the order of axes that is fast in loops.

    It is traced first, with all derivatives that it takes. A derivative of it that is taken later
    is right, but its convolutions are in other orders again. Arguments and results are pytrees of
    arrays. Does nothing on an accelerator.
    """

    @functools.wraps(body)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if jax.default_backend() != "cpu":
            return body(*args, **kwargs)

        def anew(*args: P.args, **kwargs: P.kwargs) -> T:
            # A function of its own: JAX compares a body that is a pytree with those it has traced.
            return body(*args, **kwargs)

        closed, shapes = jax.make_jaxpr(anew, return_shape=True)(*args, **kwargs)
        results = _evaluated(closed, jax.tree.leaves((args, kwargs)))
        return jax.tree.unflatten(jax.tree.structure(shapes), results)

    return call


def _evaluated(closed: ClosedJaxpr, arguments: Sequence[Any]) -> list[Any]:
    program = flattened(closed) if _is_slow(closed.jaxpr) else None
    if program is None:
        return list(eval_jaxpr(closed.jaxpr, closed.consts, *arguments))
    values = program.run(arguments, _rule)
    return [read(values, name) for name in program.results]


def _rule(_: int, step: Step, operands: list[Any]) -> Sequence[Any]:
    if step.eqn.primitive is conv_general_dilated_p:
        return [_in_order(step.eqn, *operands)]
    if any(map(_is_slow, programs_in(step.eqn))):
        step = step._replace(eqn=_rewritten(step.eqn))
    return step(*operands)


def _rewritten(eqn: JaxprEqn) -> JaxprEqn:
    """The equation with the programs that it carries rewritten."""
    return eqn.replace(params={name: _part(value) for name, value in eqn.params.items()})


def _part(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_part, value)) if any(isinstance(v, ClosedJaxpr) for v in value) else value
    if not isinstance(value, ClosedJaxpr):
        return value
    return jax.make_jaxpr(lambda *arguments: _evaluated(value, arguments))(*value.in_avals)


def _is_slow(jaxpr: Jaxpr) -> bool:
    return any(
        eqn.primitive is conv_general_dilated_p and eqn.params["dimension_numbers"] != _fast(eqn)
        for eqn in equations(jaxpr)
    )


def _fast(eqn: JaxprEqn) -> ConvDimensionNumbers:
    """Samples, pixels, channels; of the kernel: pixels, channels in, channels out."""
    last = len(eqn.params["dimension_numbers"].lhs_spec) - 1
    images = (0, last, *range(1, last))
    return ConvDimensionNumbers(images, (last, last - 1, *range(last - 1)), images)


def _in_order(eqn: JaxprEqn, x: Array, kernel: Array) -> Array:
    params = dict(eqn.params)
    given, wanted = params.pop("dimension_numbers"), _fast(eqn)
    x = jnp.transpose(x, _order(given.lhs_spec, wanted.lhs_spec))
    kernel = jnp.transpose(kernel, _order(given.rhs_spec, wanted.rhs_spec))
    out = conv_general_dilated(x, kernel, dimension_numbers=wanted, **params)
    return jnp.transpose(out, _order(wanted.out_spec, given.out_spec))


def _order(given: Sequence[int], wanted: Sequence[int]) -> list[int]:
    """The axes of an array of one order in another one; both say where each kind of axis is."""
    return [given[k] for k in np.argsort(wanted)]
