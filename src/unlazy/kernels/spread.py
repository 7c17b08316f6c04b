# SPDX-License-Identifier: Apache-2.0
"""Tiles and columns of a Gram matrix, evaluated on all devices of a mesh.

Products are in `streaming.py`; what is here comes back to the host, whole, in every process.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import jax
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.float64 import float64
from unlazy.core.meshes import to_host
from unlazy.kernels.near_pairs import repairing
from unlazy.kernels.streaming import StreamedGram, streamed
from unlazy.kernels.tilings import WHOLE, Tiling, block, shares

_LARGEST_TILE = {"cpu": 1024}  # rows
_LARGEST_TILE_ELSEWHERE = 8192
_SMALLEST_TILE = 128
_TEMPORARIES = 6  # arrays of a tile's size that evaluating one and using it holds at a time


@dataclass(frozen=True, eq=False)
class OfRows:
    """A kernel of samples of any shape, called with flat rows inside of compiled programs."""

    kernel: Callable[..., Array]
    shape: tuple[int, ...]  # of a sample

    def __call__(self, x1: Array, x2: Array | None = None) -> Array:
        """The kernel, with entries of nearly parallel rows from their difference."""
        samples = [x.reshape(len(x), *self.shape) for x in (x1, x2) if x is not None]
        with repairing():
            return self.kernel(*samples)


def spread_gram(
    kernel: Callable[..., Array], x: Float[Array, "n *d"], memory: int, mesh: Mesh
) -> StreamedGram:
    """The matrix `kernel(x)` in float64 over the devices, a tile taking an eighth of the memory."""
    most = _LARGEST_TILE.get(mesh.devices.flat[0].platform, _LARGEST_TILE_ELSEWHERE)
    side = math.isqrt(memory // (8 * 8 * _TEMPORARIES))
    # A power of two, and so many tiles that no device is without work.
    few = math.ceil(len(x) / (2 * mesh.size))
    rows = 2 ** math.floor(math.log2(max(_SMALLEST_TILE, min(side, most, few))))
    flat = x.reshape(len(x), -1)
    return streamed(OfRows(kernel, x.shape[1:]), flat, dtype="float64", rows=rows, mesh=mesh)


def upper_tiles(gram: StreamedGram) -> Iterator[tuple[slice, slice, Float64[np.ndarray, "a b"]]]:
    """Tiles on and above the diagonal, as many at a time as there are devices."""
    rows, count, n = gram.tiling.rows, gram.tiling.devices, gram.n
    exact = to_host(gram.diagonal)
    spans = [slice(start, min(start + rows, n)) for start in range(0, n, rows)]
    pairs = list(itertools.combinations_with_replacement(range(len(spans)), 2))
    for first in range(0, len(pairs), count):
        some = pairs[first : first + count]
        with float64():
            filled = np.array(some + some[-1:] * (count - len(some)), np.int32)
            place = gram.tiling.place(filled, gram.tiling.spread())
            tiles = to_host(_tiles(gram.tiling, gram.x, place))
        for (i, j), tile in zip(some, tiles, strict=False):
            T = tile[: spans[i].stop - spans[i].start, : spans[j].stop - spans[j].start]
            if i == j:  # products of rows need not come out symmetric to the last bit
                T = np.triu(T, 1) + np.triu(T, 1).T + np.diag(exact[spans[i]])
            yield spans[i], spans[j], T


def spread_columns(gram: StreamedGram, points: Float[Array, "b *d"]) -> Float64[np.ndarray, "n b"]:
    """`kernel(x, points)`, each device evaluating some of the rows."""
    tiling = gram.tiling
    with float64():
        place = tiling.place(shares(gram.blocks, tiling.devices), tiling.spread())
        flat = tiling.place(np.asarray(points).reshape(len(points), -1))
        found = to_host(_columns(tiling, gram.x, flat, place))
    return found.reshape(-1, len(points))[: gram.n]


@functools.partial(jax.jit, static_argnums=0)
def _tiles(
    tiling: Tiling, x: Array, pairs: Int[Array, "devices 2"]
) -> Float64[Array, "devices b b"]:
    def tile(x: Array, pair: Array) -> Array:
        return tiling.entries(*(block(x, pair[0, k], tiling.rows) for k in range(2)))[None]

    return tiling.on_devices(tile, (WHOLE, tiling.spread()), tiling.spread())(x, pairs)


@functools.partial(jax.jit, static_argnums=0)
def _columns(
    tiling: Tiling, x: Array, points: Array, blocks: Int[Array, "devices s"]
) -> Float64[Array, "devices s b p"]:
    def part(x: Array, points: Array, blocks: Array) -> Array:
        def entries(number: Array) -> Array:
            return tiling.entries(block(x, number, tiling.rows), points)

        return jax.lax.map(entries, blocks[0])[None]

    spread = tiling.spread()
    return tiling.on_devices(part, (WHOLE, WHOLE, spread), spread)(x, points, blocks)
