# SPDX-License-Identifier: Apache-2.0
r"""Products of rows with rows, of which kernels of the angle are functions.

They are in the full precision of the rows, unless a scope says that they are made of halves. A GPU
multiplies bfloat16 ten times faster than float32, and a row of float32 is nearly the sum of two
rows of bfloat16, $g \approx h + l$ with h the nearest to g and l that to the remainder:

$$g g'^\top \approx h h'^\top + (h l'^\top + l h'^\top + l l'^\top).$$

This is the product of rows rounded to 16 bits, so that a Gram matrix stays positive semi-definite.
"""

import contextlib
import contextvars
from collections.abc import Callable, Iterator

import jax
import jax.numpy as jnp
from jaxtyping import Array, BFloat16, Float

RowProduct = Callable[[Float[Array, "n1 d"], Float[Array, "n2 d"]], Float[Array, "n1 n2"]]


def in_full(one: Float[Array, "n1 d"], two: Float[Array, "n2 d"]) -> Float[Array, "n1 n2"]:
    """Each row of `one` with each row of `two`, in their full precision."""
    return jnp.matmul(one, two.T, precision=jax.lax.Precision.HIGHEST)


def in_halves(one: Float[Array, "n1 d"], two: Float[Array, "n2 d"]) -> Float[Array, "n1 n2"]:
    """Each row of `one` with each row of `two`, both rounded to 16 bits."""
    (h1, l1), (h2, l2) = halves(one), halves(two)
    # The small parts are one product: its sums are rounded relative to themselves.
    small = _of_halves(jnp.hstack([h1, l1, l1]), jnp.hstack([l2, h2, l2]))
    return _of_halves(h1, h2) + small


def halves(
    g: Float[Array, "*shape"],
) -> tuple[BFloat16[Array, "*shape"], BFloat16[Array, "*shape"]]:
    """The nearest bfloat16 of each entry, and that of the remainder."""
    # Not `astype` and back: XLA takes such a pair of conversions for nothing.
    high = jax.lax.reduce_precision(g, exponent_bits=8, mantissa_bits=7)
    return high.astype(jnp.bfloat16), (g - high).astype(jnp.bfloat16)


_CHOSEN: contextvars.ContextVar[RowProduct] = contextvars.ContextVar("product", default=in_full)


def row_product() -> RowProduct:
    """How products of rows are made here; a static argument of the programs that make them."""
    return _CHOSEN.get()


@contextlib.contextmanager
def products(made: RowProduct) -> Iterator[None]:
    """Make products of rows so inside the scope, also in programs that are traced there."""
    token = _CHOSEN.set(made)
    try:
        yield
    finally:
        _CHOSEN.reset(token)


def _of_halves(one: BFloat16[Array, "n1 k"], two: BFloat16[Array, "n2 k"]) -> Float[Array, "n1 n2"]:
    return jnp.matmul(one, two.T, preferred_element_type=jnp.float32)
