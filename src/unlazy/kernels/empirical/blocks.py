# SPDX-License-Identifier: Apache-2.0
"""The kernel in blocks of samples, so that the temporary arrays stay within a budget."""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from unlazy.core.checks import is_known
from unlazy.core.compiling import jit_untuned
from unlazy.kernels.empirical import contraction, products
from unlazy.kernels.empirical.features import Blocks, Cost, Features, cost, features, make_recipe
from unlazy.kernels.empirical.model import Model, check_outputs


class Method(NamedTuple):
    """What is computed, and how."""

    layerwise: bool
    traced: bool
    dtype: np.dtype


def survey(model: Model, trained: PyTree, x: Array, method: Method) -> Cost:
    """Check what `f` returns, and estimate the memory for a row and for a pair of rows."""
    known = all(is_known(leaf) for leaf in (x, *jax.tree.leaves(trained)))
    # The trace takes far longer than small kernels do: the compiled function keeps its outcome.
    return (_survey_once if known else _survey)(model, trained, x[:1], method)


def _survey(model: Model, trained: PyTree, x: Array, method: Method) -> Cost:
    check_outputs(model, trained, x)
    return cost(_recipe(model, trained, x, method), trained, x, method.dtype)


_survey_once = eqx.filter_jit(_survey)


def _recipe(model: Model, trained: PyTree, x: Array, method: Method):
    return make_recipe(model, trained, x, layerwise=method.layerwise, traced=method.traced)


# Tiles a side of the symmetric product: with 4, the work is 10/16 of the full one; more cost more
# in compilation than they save. Elsewhere one: an accelerator's compiler tunes each product of each
# tile, and kernels that compute for milliseconds were seen to take twenty seconds.
_TILES = {"cpu": 4}


def _features(model: Model, trained: PyTree, x: Array, method: Method) -> Features:
    return _features_in_parts(model, trained, x, method, 1)[0]


@jit_untuned
def _features_in_parts(
    model: Model, trained: PyTree, x: Array, method: Method, parts: int
) -> list[Features]:
    recipe = _recipe(model, trained, x, method)
    return features(recipe, trained, x, method.dtype, parts)


@jit_untuned
def _cross(one: Features, two: Features, traced: bool) -> Array:
    return contraction.cross_traced(one, two) if traced else contraction.cross_full(one, two)


@jit_untuned
def _upper_tiles(parts: list[Features], traced: bool) -> list[Array]:
    return contraction.upper_tiles(parts, traced=traced)


@jit_untuned
def _mirrored(tiles: list[Array], traced: bool) -> Array:
    return contraction.mirrored(tiles, traced=traced)


def _symmetric(parts: list[Features], traced: bool) -> Array:
    return _mirrored(_upper_tiles(parts, traced), traced)


@jit_untuned
def _diagonal(of: Features) -> Array:
    return contraction.diagonal(of)


@functools.partial(jax.jit, donate_argnums=0)
def _put(K: Array, block: Array, start: tuple[Array, ...]) -> Array:
    return jax.lax.dynamic_update_slice(K, block, start)


def kernel(
    model: Model, trained: PyTree, x1: Array, x2: Array | None, method: Method, layout: Blocks
) -> Array:
    """The kernel from tangent features, computed for at most `layout.rows` rows at a time."""
    if x2 is None:
        parts = _symmetric_parts(model, trained, x1, method, layout)
        return _assembled(parts, (x1.shape[0], x1.shape[0]))
    parts = _cross_parts(model, trained, x1, x2, method, layout)
    return _assembled(parts, (x1.shape[0], x2.shape[0]))


def diagonal(model: Model, trained: PyTree, x: Array, method: Method, block: int) -> Array:
    """The kernel of each row with itself, at most `block` rows at a time."""
    starts, size = _starts(x.shape[0], block)
    parts = (
        _Part((i,), _diagonal(_features(model, trained, x[i : i + size], method))) for i in starts
    )
    return _assembled(parts, (x.shape[0],))


class _Part(NamedTuple):
    start: tuple[int, ...]
    values: Array


def _cross_parts(
    model: Model, trained: PyTree, x1: Array, x2: Array, method: Method, layout: Blocks
) -> Iterator[_Part]:
    # The smaller set is held: it makes fewer panels, for each of which the other is computed again.
    swapped = x2.shape[0] < x1.shape[0]
    near, far = (x2, x1) if swapped else (x1, x2)
    (starts_near, size_near), (starts_far, size_far) = (
        _starts(x.shape[0], layout.rows) for x in (near, far)
    )
    for panel, _ in _panels(starts_near, layout.held):
        held = [_features(model, trained, near[i : i + size_near], method) for i in panel]
        for j in starts_far:
            other = _features(model, trained, far[j : j + size_far], method)
            for i, one in zip(panel, held, strict=True):
                first, second = (other, one) if swapped else (one, other)
                start = (j, i) if swapped else (i, j)
                yield _Part(start, _cross(first, second, method.traced))


def _symmetric_parts(
    model: Model, trained: PyTree, x: Array, method: Method, layout: Blocks
) -> Iterator[_Part]:
    starts, size = _starts(x.shape[0], layout.rows)
    if len(starts) == 1:
        count = _TILES.get(jax.default_backend(), 1)
        tiles = _features_in_parts(model, trained, x, method, count)
        yield _Part((0, 0), _symmetric(tiles, method.traced))
        return
    for panel, later in _panels(starts, layout.held):
        held = [_features(model, trained, x[i : i + size], method) for i in panel]
        for k, (i, one) in enumerate(zip(panel, held, strict=True)):
            yield _Part((i, i), _symmetric([one], method.traced))
            for j, two in zip(panel[k + 1 :], held[k + 1 :], strict=True):
                yield from _mirror_images((i, j), _cross(one, two, method.traced), method)
        for j in later:
            two = _features(model, trained, x[j : j + size], method)
            for i, one in zip(panel, held, strict=True):
                yield from _mirror_images((i, j), _cross(one, two, method.traced), method)


def _mirror_images(start: tuple[int, int], values: Array, method: Method) -> Iterator[_Part]:
    yield _Part(start, values)
    yield _Part(start[::-1], jnp.transpose(values, (1, 0) if method.traced else (1, 0, 3, 2)))


def _panels(starts: list[int], held: int) -> Iterator[tuple[list[int], list[int]]]:
    """The blocks that are held together, and those that come after them."""
    for k in range(0, len(starts), held):
        yield starts[k : k + held], starts[k + held :]


def _starts(n: int, block: int) -> tuple[list[int], int]:
    """Where blocks of one size begin: the last one overlaps, so that all compile to one program."""
    count = math.ceil(n / max(block, 1))
    size = math.ceil(n / count)
    return [min(k * size, n - size) for k in range(count)], size


def _assembled(parts: Iterator[_Part], shape: tuple[int, ...]) -> Array:
    K = None
    for start, values in parts:
        if values.shape[: len(shape)] == shape:
            return values
        outputs = values.shape[len(shape) :]
        if K is None:
            K = jnp.zeros((*shape, *outputs), values.dtype)
        K = _put(K, values, tuple(jnp.asarray(k) for k in (*start, *[0] * len(outputs))))
    assert K is not None
    return K


@eqx.filter_jit
def from_products(
    model: Model, trained: PyTree, x1: Array, x2: Array | None, method: Method
) -> Array:
    """The kernel by NTK-vector products, which hold one gradient at a time."""
    compute = products.columns_traced if method.traced else products.columns_full
    K = compute(model, trained, x1, x1 if x2 is None else x2).astype(method.dtype)
    if x2 is not None:
        return K
    return (K + jnp.transpose(K, (1, 0) if method.traced else (1, 0, 3, 2))) / 2


@eqx.filter_jit
def diagonal_from_products(model: Model, trained: PyTree, x: Array, method: Method) -> Array:
    """The kernel of each row with itself, by NTK-vector products."""
    return products.columns_diagonal(model, trained, x).astype(method.dtype)
