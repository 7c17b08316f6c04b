# SPDX-License-Identifier: Apache-2.0
"""Operations that are linear, or linear in each of two operands: coefficient by coefficient.

The path of the parameters is a straight line, so a weight has two coefficients, W and dW. A layer
h W of order k is then h_0 W .. h_k W and h_0 dW .. h_(k-1) dW: 2k + 1 products. Stacked to two
larger products they take as long on two cores, and twice as long to compile. Triangular systems,
whose matrix may move, are here as well.
"""

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jax.lax import Precision
from jaxtyping import Array

from unlazy.core.jaxprs import shaped
from unlazy.special.array_series import (
    Series,
    at,
    dense,
    is_moving,
    minus,
    product,
    quotient,
    total,
    trimmed,
)
from unlazy.taylor.context import SPARE, Context

Rule = Callable[..., Series | list[Series]]


def bind(eqn: JaxprEqn, *operands: Any) -> Any:
    """The operation of an equation on other operands."""
    return eqn.primitive.bind(*operands, **eqn.params)


def linear(ctx: Context, eqn: JaxprEqn, x: Series, *fixed: Series) -> Series | list[Series]:
    """Linear in the first operand; the others, such as indices, do not move."""
    del ctx
    rest = [s[0] for s in fixed]
    if eqn.primitive.multiple_results:
        results = [None if c is None else bind(eqn, c, *rest) for c in x]
        return [
            trimmed(None if r is None else r[k] for r in results) for k in range(len(eqn.outvars))
        ]
    return trimmed(None if c is None else bind(eqn, c, *rest) for c in x)


def jointly_linear(count: int | None = None, first: int = 0) -> Rule:
    """Linear in `count` operands together, from the `first`; None: in all of the rest."""

    def rule(ctx: Context, eqn: JaxprEqn, *operands: Series) -> Series:
        del ctx
        last = len(operands) if count is None else first + count
        moving = operands[first:last]
        result: list[Array | None] = []
        for j in range(max(len(s) for s in moving)):
            parts = [at(s, j) for s in moving]
            if all(part is None for part in parts):
                result.append(None)
                continue
            zeros = (jnp.zeros_like(s[0]) for s in moving)
            filled = [z if part is None else part for part, z in zip(parts, zeros, strict=True)]
            before, after = operands[:first], operands[last:]
            result.append(bind(eqn, *(s[0] for s in before), *filled, *(s[0] for s in after)))
        return trimmed(result)

    return rule


def alike(eqn: JaxprEqn, *operands: Series) -> Iterator[Series]:
    """The operands of an entrywise operation in the shape of its result, scalars spread out."""
    shape = shaped(eqn.outvars[0]).shape
    for s in operands:
        if jnp.shape(s[0]) == shape:
            yield s
        else:
            yield trimmed(None if c is None else jnp.broadcast_to(c, shape) for c in s)


def add(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """A sum."""
    del ctx
    a, b = alike(eqn, a, b)
    return trimmed(total([at(a, j), at(b, j)]) for j in range(max(len(a), len(b))))


def sub(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """A difference."""
    del ctx
    a, b = alike(eqn, a, b)
    return trimmed(minus(at(a, j), at(b, j)) for j in range(max(len(a), len(b))))


def mul(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """An entrywise product."""
    same = a is b
    a, b = alike(eqn, a, b)
    return product(a, a if same else b, ctx.order)


def div(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """An entrywise quotient."""
    a, b = alike(eqn, a, b)
    for _ in range(SPARE if ctx.side and is_moving(b) else 0):
        a, b = _cancelled(a, b, ctx.order)
    return quotient(a, b, ctx.order)


def _cancelled(a: Series, b: Series, order: int) -> tuple[Series, Series]:
    """Both divided by t where both start at 0: the limit of 0/0, known to one order less."""
    a, b = dense(a, order), dense(b, order)
    both = (a[0] == 0) & (b[0] == 0)
    unknown = jnp.full_like(a[0], jnp.nan)  # what it spoils, the last coefficient, is not used
    pairs = [zip(s, (*s[1:], unknown), strict=True) for s in (a, b)]
    top, bottom = ([jnp.where(both, after, c) for c, after in pair] for pair in pairs)
    return trimmed(top), trimmed(bottom)


def bilinear(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """A product of matrices, or a convolution: all pairs whose orders add up to at most k."""
    last = min(ctx.order, len(a) + len(b) - 2)
    parts: list[list[Array]] = [[] for _ in range(last + 1)]
    for i, left in enumerate(a):
        for j, right in enumerate(b[: max(0, last + 1 - i)]):
            if left is not None and right is not None:
                parts[i + j].append(bind(eqn, left, right))
    return trimmed(total(terms) for terms in parts)


def triangular_solve(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """The solution x of a x = b: a_0 x_j = b_j - a_1 x_(j-1) - ... - a_j x_0.

    Differentiating it again and again by JAX's rule, which solves twice, would double the program
    with every order; comparing coefficients takes one solve for each.
    """
    result: list[Array | None] = []
    for j in range(ctx.order + 1):
        known = total(
            _applied(eqn, at(a, i), result[j - i]) for i in range(1, min(j, len(a) - 1) + 1)
        )
        right = minus(at(b, j), known)
        result.append(None if right is None else bind(eqn, a[0], right))
    return trimmed(result)


def _applied(eqn: JaxprEqn, a: Array | None, x: Array | None) -> Array | None:
    """The matrix that the equation reads from `a`, times `x`, from its side."""
    if a is None or x is None:
        return None
    strict = 1 if eqn.params["unit_diagonal"] else 0  # the diagonal is 1, whatever is stored
    A = jnp.tril(a, -strict) if eqn.params["lower"] else jnp.triu(a, strict)
    if eqn.params["conjugate_a"]:
        A = jnp.conj(A)
    if eqn.params["transpose_a"]:
        A = jnp.swapaxes(A, -1, -2)
    left, right = (A, x) if eqn.params["left_side"] else (x, A)
    return jnp.matmul(left, right, precision=Precision.HIGHEST)


LINEAR: dict[str, Rule] = {
    **dict.fromkeys(
        (
            *("neg", "reshape", "transpose", "broadcast_in_dim", "squeeze", "reduce_sum", "slice"),
            *("rev", "copy", "copy_p", "convert_element_type", "reduce_window_sum", "cumsum"),
            *("real", "imag", "conj", "fft", "split", "name", "reduce_precision", "gather"),
            *("dynamic_slice", "sharding_constraint", "expand_dims", "device_put"),
        ),
        linear,
    ),
    "pad": jointly_linear(),
    "concatenate": jointly_linear(),
    "dynamic_update_slice": jointly_linear(2),
    "select_n": jointly_linear(first=1),
    "complex": jointly_linear(),
    "add": add,
    "add_any": add,
    "sub": sub,
    "mul": mul,
    "div": div,
    "dot_general": bilinear,
    "conv_general_dilated": bilinear,
}
SOLVING: dict[str, Rule] = {"triangular_solve": triangular_solve}
