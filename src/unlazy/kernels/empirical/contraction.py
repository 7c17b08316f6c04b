# SPDX-License-Identifier: Apache-2.0
"""Inner products of tangent features: the kernel of a block of samples with another."""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from unlazy.kernels.empirical.features import Features, Outer

_HIGHEST = jax.lax.Precision.HIGHEST


def cross_full(one: Features, two: Features) -> Float[Array, "n1 n2 c c"]:
    """The kernel between two sets of samples, for each pair of outputs."""
    return jnp.transpose(_full(one, two), (0, 2, 1, 3))


def cross_traced(one: Features, two: Features) -> Float[Array, "n1 n2"]:
    """The kernel between two sets of samples, summed over equal outputs."""
    return _traced(one, two)


def diagonal(of: Features) -> Float[Array, "n c c"]:
    """The kernel of each sample with itself."""
    terms = [_product("iap,ibp->iab", g, g) for g in of.flat]
    for A, B in of.outer:
        inputs = _product("isk,itk->ist", A, A)
        outputs = _product("iaso,ibto->iasbt", B, B)
        terms.append(jnp.sum(inputs[:, None, :, None, :] * outputs, axis=(2, 4)))
    total = _sum(terms)
    return (total + jnp.swapaxes(total, 1, 2)) / 2


def upper_tiles(parts: Sequence[Features], *, traced: bool) -> list[Array]:
    """The kernels of each part with itself and the parts after it, as `mirrored` takes them."""
    cross = _traced if traced else _full
    pairs = itertools.combinations_with_replacement(parts, 2)
    return [cross(one, two) for one, two in pairs]


def mirrored(tiles: Sequence[Array], *, traced: bool) -> Array:
    """The kernel of all parts, symmetric to the last bit.

    Apart from `upper_tiles`, in a program of its own: when XLA sees both, it runs the products at
    two thirds of their speed.
    """
    count = (math.isqrt(8 * len(tiles) + 1) - 1) // 2
    swap = (1, 0) if traced else (1, 0, 3, 2)
    grid: list[list[Any]] = [[None] * count for _ in range(count)]
    places = itertools.combinations_with_replacement(range(count), 2)
    for (i, j), tile in zip(places, tiles, strict=True):
        tile = tile if traced else jnp.transpose(tile, (0, 2, 1, 3))
        if i == j:
            # A product of a matrix with its own transpose need not come out symmetric.
            tile = (tile + jnp.transpose(tile, swap)) / 2
        grid[i][j], grid[j][i] = tile, jnp.transpose(tile, swap)
    return jnp.concatenate([jnp.concatenate(row, axis=1) for row in grid])


def _full(one: Features, two: Features) -> Float[Array, "n1 c n2 c"]:
    terms = [_pairs(*pair) for pair in zip(one.flat, two.flat, strict=True)]
    terms += [_outer_full(*pair) for pair in zip(one.outer, two.outer, strict=True)]
    return _sum(terms)


def _traced(one: Features, two: Features) -> Float[Array, "n1 n2"]:
    terms = [_summed(*pair) for pair in zip(one.flat, two.flat, strict=True)]
    terms += [_outer_traced(*pair) for pair in zip(one.outer, two.outer, strict=True)]
    return _sum(terms)


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
