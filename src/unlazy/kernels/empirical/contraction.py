# SPDX-License-Identifier: Apache-2.0
"""The kernel of a block of samples with another: inner products of their tangent features.

Where not even the features of two samples fit the memory, NTK-vector products give the kernel
column by column: a gradient is pushed forward, and no Jacobian is held.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from unlazy.core.compiling import jit_untuned
from unlazy.core.convolutions import looped
from unlazy.kernels.empirical.features import Features, Outer
from unlazy.kernels.empirical.host_products import is_on_host, product_on_host
from unlazy.kernels.empirical.long_products import long_product
from unlazy.kernels.empirical.model import Model, Task

_HIGHEST = jax.lax.Precision.HIGHEST


def cross(one: Features, two: Features, *, traced: bool) -> Array:
    """The kernel between two sets of samples: (n1, n2) if traced, else (n1, n2, c, c)."""
    long = _on_host(one, two, traced)
    if not long:
        return _cross(one, two, traced)
    one_rest, two_rest = _without(one, long), _without(two, long)
    terms: list[Any] = [_product_on_host(one.flat[k], two.flat[k], traced) for k in long]
    if any(map(len, one_rest)):
        terms.append(_compiled(one_rest, two_rest, traced))
    return _outputs_last(jnp.asarray(_sum(terms)), traced)


@jit_untuned
def _cross(one: Features, two: Features, traced: bool) -> Array:
    return _outputs_last(contracted(one, two, traced), traced)


def _outputs_last(K: Array, traced: bool) -> Array:
    return K if traced else jnp.transpose(K, (0, 2, 1, 3))


def symmetric(parts: Sequence[Features], *, traced: bool) -> Array:
    """The kernel of all samples of the parts, symmetric to the last bit."""
    long = _on_host(parts[0], parts[0], traced) if len(parts) == 1 else []
    rest = [_without(of, long) for of in parts]
    tiles = _upper_tiles(rest, traced) if any(map(len, rest[0])) else []
    if long:
        terms = [_product_on_host(parts[0].flat[k], parts[0].flat[k], traced) for k in long]
        tiles = [jnp.asarray(_sum([*terms, *tiles]))]
    return _mirrored(tiles, traced)


@jit_untuned
def diagonal(of: Features) -> Float[Array, "n c c"]:
    """The kernel of each sample with itself."""
    terms = [_product("iap,ibp->iab", g, g) for g in of.flat]
    for A, B in of.outer:
        inputs = _product("isk,itk->ist", A, A)
        outputs = _product("iaso,ibto->iasbt", B, B)
        terms.append(jnp.sum(inputs[:, None, :, None, :] * outputs, axis=(2, 4)))
    total = _sum(terms)
    return (total + jnp.swapaxes(total, 1, 2)) / 2


def _on_host(one: Features, two: Features, traced: bool) -> list[int]:
    """Which gradients are multiplied on the host."""
    pairs = enumerate(zip(one.flat, two.flat, strict=True))
    return [k for k, both in pairs if all(is_on_host(g, traced=traced) for g in both)]


def _product_on_host(
    g1: Float[Array, "n1 c p"], g2: Float[Array, "n2 c p"], traced: bool
) -> np.ndarray:
    if traced:
        return product_on_host(g1, g2)
    (n1, c, p), n2 = g1.shape, len(g2)
    one = np.asarray(g1).reshape(n1 * c, p)
    two = one if g2 is g1 else np.asarray(g2).reshape(n2 * c, p)
    return product_on_host(one, two).reshape(n1, c, n2, c)


def _without(of: Features, long: list[int]) -> Features:
    return Features([g for k, g in enumerate(of.flat) if k not in long], of.outer)


@jit_untuned
def _upper_tiles(parts: Sequence[Features], traced: bool) -> list[Array]:
    """The kernels of each part with itself and the parts after it."""
    pairs = itertools.combinations_with_replacement(parts, 2)
    return [contracted(one, two, traced) for one, two in pairs]


@jit_untuned
def _mirrored(tiles: Sequence[Array], traced: bool) -> Array:
    # A program of its own: where XLA sees the products too, it runs them at two thirds of their
    # speed.
    count = (math.isqrt(8 * len(tiles) + 1) - 1) // 2
    grid: list[list[Any]] = [[None] * count for _ in range(count)]
    places = itertools.combinations_with_replacement(range(count), 2)
    for (i, j), tile in zip(places, tiles, strict=True):
        tile = tile if traced else jnp.transpose(tile, (0, 2, 1, 3))
        if i == j:
            # A product of a matrix with its own transpose need not come out symmetric.
            tile = (tile + mirror_image(tile)) / 2
        grid[i][j], grid[j][i] = tile, mirror_image(tile)
    return jnp.concatenate([jnp.concatenate(row, axis=1) for row in grid])


def mirror_image(K: Array) -> Array:
    """The kernel with its two sets of samples exchanged."""
    return jnp.transpose(K, (1, 0) if K.ndim == 2 else (1, 0, 3, 2))


def contracted(one: Features, two: Features, traced: bool) -> Array:
    """The sum over layers and other parameters: (n1, n2) if traced, else (n1, c, n2, c)."""
    of_flat, of_outer = (_summed, _outer_traced) if traced else (_pairs, _outer_full)
    terms = [of_flat(*pair) for pair in zip(one.flat, two.flat, strict=True)]
    terms += [of_outer(*pair) for pair in zip(one.outer, two.outer, strict=True)]
    return _sum(terms)


_compiled = jit_untuned(contracted)


def _product(formula: str, one: Array, two: Array) -> Array:
    return jnp.einsum(formula, one, two, precision=_HIGHEST)


def _sum(terms: list[Any]) -> Any:
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
    one = g1.reshape(-1, g1.shape[2])
    two = one if g2 is g1 else g2.reshape(-1, g2.shape[2])
    return long_product(one, two).reshape(*g1.shape[:2], *g2.shape[:2])


def _summed(g1: Float[Array, "n1 c p"], g2: Float[Array, "n2 c p"]) -> Float[Array, "n1 n2"]:
    one = g1.reshape(g1.shape[0], -1)
    return long_product(one, one if g2 is g1 else g2.reshape(g2.shape[0], -1))


@eqx.filter_jit
def from_products(task: Task, x1: Array, x2: Array | None) -> Array:
    """The kernel by NTK-vector products: one sample of `x2` and one output at a time."""
    model, trained, other = task.model, task.trained, x1 if x2 is None else x2

    def traced(x: Array) -> Float[Array, " n1"]:
        return jnp.trace(_columns(model, trained, x1, x), axis1=0, axis2=2)

    if task.traced:  # without the full kernel in between
        K = jax.lax.map(looped(traced), other).T
    else:
        of_row = looped(lambda x: _columns(model, trained, x1, x))
        columns = jax.lax.map(of_row, other)  # (n2, c2, n1, c1)
        K = jnp.transpose(columns, (2, 0, 3, 1))
    K = K.astype(task.dtype)
    return K if x2 is not None else (K + mirror_image(K)) / 2


@eqx.filter_jit
def diagonal_from_products(task: Task, x: Array) -> Float[Array, "n c c"]:
    """The kernel of each sample with itself, by NTK-vector products."""

    def of_row(row: Array) -> Float[Array, "c c"]:
        return _columns(task.model, task.trained, row[None], row)[:, 0]

    K = jax.lax.map(looped(of_row), x)
    return ((K + jnp.swapaxes(K, 1, 2)) / 2).astype(task.dtype)


def _columns(model: Model, trained: PyTree, x1: Array, x: Array) -> Float[Array, "c n1 c"]:
    """For each output at `x`, the derivative of all outputs at `x1` along its gradient."""
    out, pull = jax.vjp(lambda trained: model(trained, x), trained)

    def column(unit):
        (gradient,) = pull(unit)
        return jax.jvp(lambda trained: model.batch(trained, x1), (trained,), (gradient,))[1]

    # One output after the other: only one gradient is held.
    return jax.lax.map(column, jnp.eye(out.shape[0], dtype=out.dtype))
