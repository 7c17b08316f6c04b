# SPDX-License-Identifier: Apache-2.0
"""Kernels of the angle and of per-row numbers, block by block.

A kernel here is a function of the cosine between two rows and of numbers that each row has by
itself (its norm, say). The cosines come from matrix products; of a symmetric matrix the blocks on
and right of the diagonal are computed and mirrored. Rows so nearly parallel that the cosine no
longer carries their angle are found and computed again from the difference of the rows.

Blocks have one shape, and one program serves them all, so that compiling takes as long at every n.
Copies are programs by themselves: XLA takes minutes to compile a transpose within the arithmetic of
a kernel, and evaluates the entries twice.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Float, Int

from unlazy.core.checks import as_array, check_inputs, is_known
from unlazy.core.compiling import jit_untuned_static
from unlazy.kernels.near_pairs import is_repairing, repaired
from unlazy.kernels.parts import even_parts, of_one_size
from unlazy.kernels.polar import padded_polar, polar
from unlazy.kernels.row_products import RowProduct, row_product

# Block rows of the symmetric product: with 8, the work is 9/16 of the full product, and a block
# is still large enough for the product to run at full speed (measured at n = 4000).
_BLOCKS = 8
_LARGEST_BLOCK = 4096  # rows; bounds the temporary memory at large n
_LARGEST_CROSS_BLOCK = 8192  # rows and columns of a matrix that is not symmetric
_SMALLEST_BLOCK = 128  # rows; below it, symmetry saves less than the extra launches cost
_PAIR_ENTRIES = 2**22  # gathered at once when near pairs are repaired: 32 MB in float64


@runtime_checkable
class AngularKernel(Protocol):
    """A kernel between rows, given their angle.

    It is a static argument of compiled programs, so make it a frozen dataclass: two `NamedTuple`s
    without fields are equal, and one would get what was compiled for the other.

    `rows` is any pytree of arrays whose last axis runs over the rows.
    """

    def pairs(
        self, cos: Float[Array, "*shape"], gap: Float[Array, "*shape"], rows1: Any, rows2: Any
    ) -> Float[Array, "*shape"]:
        """The kernel at cosine `cos`, with `gap` = 1 - |cos|; the rows' numbers broadcast to it.

        It must commute in the rows to the last bit, for the matrix to be symmetric where both sides
        of the diagonal are evaluated (under `jax.jit`, and for few rows). Products and sums of two
        numbers do; a sum of two products, `p1 * q1 + p2 * q2`, does not: one of them is fused with
        the addition.
        """
        ...

    def diagonal(self, rows: Any) -> Float[Array, " n"]:
        """The kernel of each row with itself."""
        ...


class _Side(NamedTuple):
    unit: Float[Array, "n d"]
    rows: Any


class _Gram(NamedTuple):
    values: Float[Array, "n1 n2"]
    has_near_pairs: Bool[Array | np.ndarray, ""] | np.bool_


class CheckedPair(NamedTuple):
    """Inputs as arrays, in the dtype that they came in, and the dtype to compute in."""

    x1: Array | np.ndarray
    x2: Array | np.ndarray | None
    dtype: jnp.dtype


def check_pair(
    x1: ArrayLike,
    x2: ArrayLike | None,
    dtype: jax.typing.DTypeLike,
    *,
    allow_zero_rows: bool = False,
) -> CheckedPair:
    """Raise unless `x1` and `x2` (or None) are inputs with the same number of columns."""
    dtype = jnp.dtype(dtype)
    if dtype not in (jnp.float32, jnp.float64):
        raise ValueError(f"`dtype` must be float32 or float64, got dtype={dtype}.")
    x1 = as_array(x1, "x1")
    check_inputs(x1, "x1", allow_zero_rows=allow_zero_rows)
    if x2 is not None:
        x2 = as_array(x2, "x2")
        check_inputs(x2, "x2", allow_zero_rows=allow_zero_rows)
        if x1.shape[1] != x2.shape[1]:
            raise ValueError(
                "`x1` and `x2` must have the same number of columns, "
                f"got x1.shape={x1.shape} and x2.shape={x2.shape}."
            )
    return CheckedPair(x1, x2, dtype)


def angular_matrix(
    kernel: AngularKernel,
    rows: Callable[[list[Float[Array, "_"]]], list[Any]],
    x1: Array | np.ndarray,
    x2: Array | np.ndarray | None,
    dtype: jnp.dtype,
) -> Float[Array, "n1 n2"]:
    """The matrix of `kernel` between inputs, where `rows` gives each row's numbers from the norms.

    `rows` is called once, with the norms of each side: how many numbers it gives per row may depend
    on their values (the degrees of a series do), and the two sides of a pair must have as many.
    """
    n1, n2 = len(x1), len(x1 if x2 is None else x2)
    split = padded_polar if is_known(x1) and is_known(x2) else polar
    p1 = split(x1, "x1", dtype)
    if x2 is None:
        H = kernel_matrix(kernel, p1.unit, *rows([p1.norm]))
    else:
        p2 = split(x2, "x2", dtype)
        rows1, rows2 = rows([p1.norm, p2.norm])
        H = kernel_matrix(kernel, p1.unit, rows1, p2.unit, rows2)
    return H if H.shape == (n1, n2) else H[:n1, :n2]


def kernel_matrix(
    kernel: AngularKernel,
    unit1: Float[Array, "n1 d"],
    rows1: Any,
    unit2: Float[Array, "n2 d"] | None = None,
    rows2: Any = None,
) -> Float[Array, "n1 n2"]:
    """The matrix of `kernel` between directions; symmetric to the last bit when `unit2` is None.

    Under a transformation of JAX nearly parallel rows are repaired in a scope `repairing` alone.
    """
    side1 = _Side(unit1, rows1)
    side2 = None if unit2 is None else _Side(unit2, rows2)
    gram = _symmetric(kernel, side1) if side2 is None else _cross(kernel, side1, side2)
    if is_known(gram.has_near_pairs):
        if gram.has_near_pairs:
            return _repair_near_pairs(kernel, gram.values, side1, side2)
    elif is_repairing() and side2 is not None:
        near = jnp.abs(_cosines(unit1, side2.unit)) > 1 - _near(unit1.dtype)
        pairs = functools.partial(_pair_kernel, kernel, side1, side2)
        return repaired(gram.values, near, pairs)
    return gram.values


def block_rows(n: int) -> list[tuple[int, int]]:
    """Where each block row of a symmetric matrix starts and stops; their sizes differ by 1."""
    count = max(min(_BLOCKS, n // _SMALLEST_BLOCK), math.ceil(n / _LARGEST_BLOCK), 1)
    return even_parts(n, count)


def _near(dtype: jnp.dtype) -> float:
    """How close to 1 a |cosine| may come before the angle it gives loses half of its digits."""
    return 1e-5 if dtype == jnp.float64 else 1e-3


def _cosines(u1: Float[Array, "n1 d"], u2: Float[Array, "n2 d"]) -> Float[Array, "n1 n2"]:
    return _multiplied(row_product(), u1, u2)


# By itself: the arithmetic on the cosines is then compiled for all numbers of columns.
@jax.jit(static_argnums=0)
def _multiplied(
    product: RowProduct, u1: Float[Array, "n1 d"], u2: Float[Array, "n2 d"]
) -> Float[Array, "n1 n2"]:
    return product(u1, u2)


def _gap(cos: Float[Array, "n1 n2"]) -> Float[Array, "n1 n2"]:
    return 1 - jnp.minimum(jnp.abs(cos), jnp.ones((), cos.dtype))


@jax.jit(static_argnums=2)  # the start is traced: one program for all blocks
def _take(side: _Side, start: int | Array, size: int) -> _Side:
    rows = jax.tree.map(
        lambda v: jax.lax.dynamic_slice_in_dim(v, start, size, axis=v.ndim - 1), side.rows
    )
    return _Side(jax.lax.dynamic_slice_in_dim(side.unit, start, size), rows)


def _evaluate(kernel: AngularKernel, cos: Float[Array, "n1 n2"], rows1: Any, rows2: Any):
    down = jax.tree.map(lambda v: v[..., :, None], rows1)
    across = jax.tree.map(lambda v: v[..., None, :], rows2)
    return kernel.pairs(cos, _gap(cos), down, across)


def _cross(kernel: AngularKernel, side1: _Side, side2: _Side) -> _Gram:
    n1, n2 = side1.unit.shape[0], side2.unit.shape[0]
    down, right = (
        of_one_size(even_parts(n, math.ceil(n / _LARGEST_CROSS_BLOCK))) for n in (n1, n2)
    )
    if len(down.starts) == len(right.starts) == 1 or not is_known(_probe(side1, side2)):
        return _block(kernel, _cosines(side1.unit, side2.unit), side1.rows, side2.rows)
    H, near = _zeros((n1, n2), side1.unit.dtype), []
    for i in down.starts:
        rows = _take(side1, i, down.size)
        for j in right.starts:
            columns = _take(side2, j, right.size)
            cos = _cosines(rows.unit, columns.unit)
            block = _block(kernel, cos, rows.rows, columns.rows)
            H = _set(H, block.values, i, j)
            near.append(block.has_near_pairs)
    return _Gram(H, _any(near))


def _symmetric(kernel: AngularKernel, side: _Side) -> _Gram:
    """The blocks on and right of the diagonal, each with its mirror image."""
    n = side.unit.shape[0]
    blocks = of_one_size(block_rows(n))
    if len(blocks.starts) == 1 or not is_known(_probe(side)):
        return _square(kernel, _cosines(side.unit, side.unit), side.rows)
    H, near = _zeros((n, n), side.unit.dtype), []
    for k, i in enumerate(blocks.starts):
        rows = _take(side, i, blocks.size)
        for j in blocks.starts[k:]:
            columns = _take(side, j, blocks.size)
            cos = _cosines(rows.unit, columns.unit)
            block = _upper_block(kernel, cos, rows.rows, columns.rows, j - i)
            # Where blocks share a row, the last one stays, on both sides of the diagonal.
            H = _set_both(H, block.values, i, j)
            near.append(block.has_near_pairs)
    return _Gram(H, _any(near))


def _probe(*sides: _Side) -> Array:
    """An array that is known if all of them are, and no program is being traced."""
    leaves = jax.tree.leaves(sides)
    return next((leaf for leaf in leaves if not is_known(leaf)), jnp.zeros(()))


@jit_untuned_static
def _block(kernel: AngularKernel, cos: Float[Array, "n1 n2"], rows1: Any, rows2: Any) -> _Gram:
    near = jnp.any(jnp.abs(cos) > 1 - _near(cos.dtype))
    return _Gram(_evaluate(kernel, cos, rows1, rows2), near)


@jit_untuned_static
def _upper_block(
    kernel: AngularKernel, cos: Float[Array, "b b"], rows1: Any, rows2: Any, right: int | Array
) -> _Gram:
    """A block that starts `right` columns from the diagonal; it may meet the diagonal or not."""
    place = jnp.arange(len(cos), dtype=jnp.int32)
    diagonal = place[:, None] == (right + place)[None, :]
    # Zero on the diagonal first: such a pair is not near, and the diagonal has its own formula.
    cos = jnp.where(diagonal, 0, cos)
    near = jnp.any(jnp.abs(cos) > 1 - _near(cos.dtype))
    values = _evaluate(kernel, cos, rows1, rows2)
    return _Gram(jnp.where(diagonal, kernel.diagonal(rows1)[:, None], values), near)


@jit_untuned_static
def _square(kernel: AngularKernel, cos: Float[Array, "n n"], rows: Any) -> _Gram:
    """The whole matrix at once, for few rows and inside of other programs."""
    # A product of a matrix with its own transpose need not come out symmetric to the last bit.
    cos = (cos + cos.T) / 2
    diagonal = jnp.eye(cos.shape[0], dtype=bool)
    near = jnp.any((jnp.abs(cos) > 1 - _near(cos.dtype)) & ~diagonal)
    # Zero on the diagonal first, so that no infinite slope is met there.
    values = _evaluate(kernel, jnp.where(diagonal, 0, cos), rows, rows)
    return _Gram(jnp.where(diagonal, kernel.diagonal(rows)[:, None], values), near)


@jax.jit(static_argnums=(0, 1))
def _zeros(shape: tuple[int, int], dtype: jnp.dtype) -> Float[Array, "n1 n2"]:
    return jnp.zeros(shape, dtype)


@jax.jit(donate_argnums=0)  # in place: at n = 60000 a copy would take 29 GB
def _set(H: Float[Array, "n1 n2"], block: Float[Array, "b1 b2"], i, j) -> Float[Array, "n1 n2"]:
    return jax.lax.dynamic_update_slice(H, block, (i, j))


@jax.jit(donate_argnums=0)
def _set_both(H: Float[Array, "n n"], block: Float[Array, "b b"], i, j) -> Float[Array, "n n"]:
    """The block and its mirror image; on the diagonal, what is right of it is mirrored."""
    below = jnp.tri(block.shape[0], k=-1, dtype=bool) & (i == j)
    block = jnp.where(below, block.T, block)
    H = jax.lax.dynamic_update_slice(H, block, (i, j))
    return jax.lax.dynamic_update_slice(H, block.T, (j, i))


def _any(flags: list[Bool[Array, ""]]) -> np.bool_:
    return np.any([np.asarray(flag) for flag in flags])


def _repair_near_pairs(
    kernel: AngularKernel, H: Float[Array, "n1 n2"], side1: _Side, side2: _Side | None
) -> Float[Array, "n1 n2"]:
    """Recompute the entries of nearly parallel or antipodal rows from their difference."""
    other = side1 if side2 is None else side2
    i, j = _near_pairs(side1.unit, other.unit, symmetric=side2 is None)
    if i.size == 0:  # the product came out a hair below the threshold this time
        return H
    # In pieces that bound the memory, each filled up with its last pair to one of few sizes, so
    # that few shapes are ever compiled.
    piece = max(1, _PAIR_ENTRIES // side1.unit.shape[1])
    for start in range(0, i.size, piece):
        rows, columns = (_padded(index[start : start + piece], piece) for index in (i, j))
        values = _pair_kernel(kernel, side1, other, rows, columns)
        H = _store(H, rows, columns, values)
        if side2 is None:
            H = _store(H, columns, rows, values)
    return H


def _padded(index: Int[np.ndarray, " p"], most: int) -> Int[np.ndarray, " q"]:
    size = min(16 ** max(1, math.ceil(math.log(index.size, 16))), most)
    return np.pad(index, (0, max(0, size - index.size)), mode="edge")


@jax.jit(donate_argnums=0)  # in place: at n = 60000 a copy would take 29 GB
def _store(H: Float[Array, "n1 n2"], i, j, values: Float[Array, " p"]) -> Float[Array, "n1 n2"]:
    return H.at[i, j].set(values)


def _near_pairs(u1: Float[Array, "n1 d"], u2: Float[Array, "n2 d"], *, symmetric: bool):
    rows, columns = [], []
    parts = block_rows(u1.shape[0])
    blocks = of_one_size(parts)
    for (start, stop), first in zip(parts, blocks.starts, strict=True):
        i, j = np.nonzero(np.asarray(_is_near(u1, u2, first, blocks.size)))
        i = i + first
        keep = (start <= i) & (i < stop)
        keep &= i < j if symmetric else True
        rows.append(i[keep])
        columns.append(j[keep])
    return np.concatenate(rows), np.concatenate(columns)


@jax.jit(static_argnums=3)  # the start is traced: one program for all blocks
def _is_near(
    u1: Float[Array, "n1 d"], u2: Float[Array, "n2 d"], start: Int[Array, ""], size: int
) -> Bool[Array, "b n2"]:
    some = jax.lax.dynamic_slice_in_dim(u1, start, size)
    return jnp.abs(_cosines(some, u2)) > 1 - _near(u1.dtype)


@jax.jit(static_argnums=0)
def _pair_kernel(kernel: AngularKernel, side1: _Side, side2: _Side, i, j) -> Float[Array, " p"]:
    u, v = side1.unit[i], side2.unit[j]
    # 1 - cos = |u - v|^2 / 2 for unit rows, and 1 + cos = |u + v|^2 / 2.
    apart, along = (jnp.sum((u - sign * v) ** 2, axis=1) / 2 for sign in (1, -1))
    gap = jnp.minimum(apart, along)
    cos = jnp.where(apart <= along, 1 - gap, gap - 1)
    rows1 = jax.tree.map(lambda value: value[..., i], side1.rows)
    rows2 = jax.tree.map(lambda value: value[..., j], side2.rows)
    return kernel.pairs(cos, gap, rows1, rows2)
