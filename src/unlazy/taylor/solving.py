# SPDX-License-Identifier: Apache-2.0
"""Linear systems with a triangular matrix that moves.

Differentiating them again and again by JAX's rule, which solves twice, would double the program
with every order; comparing coefficients takes one solve for each.
"""

import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jax.lax import Precision
from jaxtyping import Array

from unlazy.special.array_series import Series, at, minus, total, trimmed
from unlazy.taylor.context import Context
from unlazy.taylor.linear_rules import Rule, bind


def triangular_solve(ctx: Context, eqn: JaxprEqn, a: Series, b: Series) -> Series:
    """The solution x of a x = b: a_0 x_j = b_j - a_1 x_(j-1) - ... - a_j x_0."""
    result: list[Array | None] = []
    for j in range(ctx.order + 1):
        known = total(
            _applied(eqn, at(a, i), result[j - i]) for i in range(1, min(j, len(a) - 1) + 1)
        )
        right = minus(at(b, j), known)
        result.append(None if right is None else bind(eqn, a[0], right))
    return trimmed(result)


def _applied(eqn: JaxprEqn, a: Array | None, x: Array | None) -> Array | None:
    """The matrix that the equation reads from `a`, times `x`, on its side."""
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


SOLVING: dict[str, Rule] = {"triangular_solve": triangular_solve}
