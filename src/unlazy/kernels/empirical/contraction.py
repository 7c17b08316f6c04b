# SPDX-License-Identifier: Apache-2.0
"""Inner products of tangent features: the kernel of a block of samples with another."""

import functools
import itertools

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.kernels.empirical.features import Features, Outer

_HIGHEST = jax.lax.Precision.HIGHEST
# Block rows of the symmetric product: with 4, the work is 10/16 of the full one; more blocks cost
# more in compilation than they save.
_BLOCKS = 4
_SMALLEST_BLOCK = 128  # rows of the product; below it, symmetry saves nothing


def cross_full(one: Features, two: Features) -> Float[Array, "n1 n2 c c"]:
    """The kernel between two sets of samples, for each pair of outputs."""
    terms = [_pairs(*pair) for pair in zip(one.flat, two.flat, strict=True)]
    terms += [_outer_full(*pair) for pair in zip(one.outer, two.outer, strict=True)]
    return jnp.transpose(_sum(terms), (0, 2, 1, 3))


def cross_traced(one: Features, two: Features) -> Float[Array, "n1 n2"]:
    """The kernel between two sets of samples, summed over equal outputs."""
    terms = [_summed(*pair) for pair in zip(one.flat, two.flat, strict=True)]
    terms += [_outer_traced(*pair) for pair in zip(one.outer, two.outer, strict=True)]
    return _sum(terms)


def diagonal(of: Features) -> Float[Array, "n c c"]:
    """The kernel of each sample with itself."""
    terms = [_product("iap,ibp->iab", g, g) for g in of.flat]
    for A, B in of.outer:
        inputs = _product("isk,itk->ist", A, A)
        outputs = _product("iaso,ibto->iasbt", B, B)
        terms.append(jnp.sum(inputs[:, None, :, None, :] * outputs, axis=(2, 4)))
    total = _sum(terms)
    return (total + jnp.swapaxes(total, 1, 2)) / 2


def symmetric_full(of: Features) -> Float[Array, "n n c c"]:
    """The kernel of samples with themselves, symmetric to the last bit."""
    return _mirrored(of, cross_full, (1, 0, 3, 2))


def symmetric_traced(of: Features) -> Float[Array, "n n"]:
    """The traced kernel of samples with themselves, symmetric to the last bit."""
    return _mirrored(of, cross_traced, (1, 0))


def _mirrored(of: Features, cross, swap: tuple[int, ...]) -> Array:
    """Block row by block row: what lies right of the diagonal is computed once and mirrored."""
    (n, c) = of.flat[0].shape[:2] if of.flat else of.outer[0].B.shape[:2]
    rows = n * c if len(swap) == 4 else n
    count = max(min(_BLOCKS, rows // _SMALLEST_BLOCK, n), 1)
    edges = [n * k // count for k in range(count + 1)]
    block_rows = []
    for k, (start, stop) in enumerate(itertools.pairwise(edges)):
        right = cross(_rows(of, start, stop), _rows(of, start, n))
        square = right[:, : stop - start]
        # A product of a matrix with its own transpose need not come out symmetric.
        square = (square + jnp.transpose(square, swap)) / 2
        left = [jnp.transpose(above[:, start:stop], swap) for above in block_rows[:k]]
        block_rows.append(jnp.concatenate([*left, square, right[:, stop - start :]], axis=1))
    return jnp.concatenate(block_rows)


def _rows(of: Features, start: int, stop: int) -> Features:
    return jax.tree.map(lambda array: array[start:stop], of)


def _product(formula: str, one: Array, two: Array) -> Array:
    return jnp.einsum(formula, one, two, precision=_HIGHEST)


def _sum(terms: list[Array]) -> Array:
    return functools.reduce(jnp.add, terms)


def _outer_full(one: Outer, two: Outer) -> Float[Array, "n1 c n2 c"]:
    if _is_dense(one):
        inputs = _product("ik,jk->ij", one.A[:, 0], two.A[:, 0])
        return inputs[:, None, :, None] * _pairs(one.B[:, :, 0], two.B[:, :, 0])
    inputs = _product("isk,jtk->isjt", one.A, two.A)
    outputs = _product("iaso,jbto->iasjbt", one.B, two.B)
    return jnp.sum(inputs[:, None, :, :, None, :] * outputs, axis=(2, 5))


def _outer_traced(one: Outer, two: Outer) -> Float[Array, "n1 n2"]:
    if _is_dense(one):
        inputs = _product("ik,jk->ij", one.A[:, 0], two.A[:, 0])
        return inputs * _summed(one.B[:, :, 0], two.B[:, :, 0])
    inputs = _product("isk,jtk->isjt", one.A, two.A)
    outputs = _product("iaso,jato->isjt", one.B, two.B)
    return jnp.sum(inputs * outputs, axis=(1, 3))


def _is_dense(outer: Outer) -> bool:
    return outer.A.shape[1] == 1


# Both as products of two plain matrices: XLA's CPU backend runs a product over several axes at
# half the speed, transposing first.


def _pairs(g1: Float[Array, "n1 c p"], g2: Float[Array, "n2 c p"]) -> Float[Array, "n1 c n2 c"]:
    flat = (g.reshape(-1, g.shape[2]) for g in (g1, g2))
    return _product("ip,jp->ij", *flat).reshape(*g1.shape[:2], *g2.shape[:2])


def _summed(g1: Float[Array, "n1 c p"], g2: Float[Array, "n2 c p"]) -> Float[Array, "n1 n2"]:
    return _product("ip,jp->ij", *(g.reshape(g.shape[0], -1) for g in (g1, g2)))
