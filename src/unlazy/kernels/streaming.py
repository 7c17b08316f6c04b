# SPDX-License-Identifier: Apache-2.0
"""Products with a Gram matrix whose tiles are made and used up on the device.

A tile is never stored: one program makes the cosines of two blocks of rows, the kernel of them, and
both products that need it, for a tile and its mirror image. Programs run over lists of tiles, so
that the host has little to do, and over the devices of a mesh, of which each has the samples, its
share of the tiles, and sums of its own, added up once per product.
"""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.float64 import float64
from unlazy.core.meshes import check_mesh
from unlazy.kernels.precision import Widened
from unlazy.kernels.row_products import in_full, in_halves
from unlazy.kernels.tilings import WHOLE, Tiling, block, shares
from unlazy.linalg.iterative import Progress

_TILE = {"cpu": 1024}  # rows; on an accelerator a tile of 256 MiB keeps all of it busy
_TILE_ELSEWHERE = 8192
_CALL = 64  # tiles per device and call: between calls progress is told and interrupts are met
_DIAGONAL_ROWS = 128  # of the small squares along the diagonal


class _Side(NamedTuple):
    """Rows of a kernel that is not square, and which samples they are.

    In float32 the kernel of a row with itself would come out differently in each program, since a
    cosine near 1 has lost half of the digits of its angle: where two rows are one sample, its own
    value is put.
    """

    x: Float[Array, "N d"]
    number: Int[Array, " N"]  # -1 for rows that are no sample
    own: Float[Array, " N"]  # the kernel of each with itself, used where numbers agree


class StreamedGram(eqx.Module):
    """The matrix `kernel(x)` by its products; see `streamed`."""

    x: Float[Array, "N d"]  # with more rows up to whole tiles, copies of others
    diagonal: Float64[Array, " n"]
    kernel: Callable = eqx.field(static=True)  # for few samples, outside of programs
    tiling: Tiling = eqx.field(static=True)

    @property
    def n(self) -> int:
        """Rows of the matrix."""
        return self.diagonal.shape[0]

    @property
    def blocks(self) -> int:
        """Tiles in a row of the matrix."""
        return len(self.x) // self.tiling.rows

    @property
    def exact_eps(self) -> float:
        """The relative rounding of `exact`."""
        dtype = jnp.float32 if isinstance(self.kernel, Widened) else jnp.float64
        return float(jnp.finfo(dtype).eps)

    def matmat(
        self, V: Float[Array | np.ndarray, "n c"], progress: Progress | None = None
    ) -> Float64[Array, "n c"]:
        """The product with the columns of `V`, rounded as tiles are; sums are in float64."""
        tiling = self.tiling
        pairs = np.array(list(itertools.combinations_with_replacement(range(self.blocks), 2)))
        with float64():
            V = jnp.asarray(V, jnp.float64)
            operand = tiling.place(_padded(V, len(self.x)).astype(self.x.dtype))
            sums = tiling.sums(*operand.shape)
            for done, some in _calls(pairs, tiling):
                sums = _add_tiles(tiling, self.x, operand, sums, some)
                _report(progress, done, len(pairs), sums)
            return _total(sums)[: self.n] + self.diagonal[:, None] * V

    def cross(
        self, points: Float[Array | np.ndarray, "t d"], V: Float[Array | np.ndarray, "n c"]
    ) -> Float64[Array, "t c"]:
        """The product of `kernel(points, x)` with the columns of `V`."""
        with float64():
            found = _exact_products(self.tiling, self._side(points), self._side(), V)
            return found[: len(points)]

    def columns_transposed(
        self, chosen: Int[np.ndarray, " m"], V: Float[Array | np.ndarray, "n c"]
    ) -> Float64[Array, "m c"]:
        """The product of some rows of the matrix with the columns of `V`."""
        with float64():
            found = _exact_products(self.tiling, self._side(chosen=chosen), self._side(), V)
            return found[: len(chosen)]

    def columns(
        self, chosen: Int[np.ndarray, " m"], V: Float[Array | np.ndarray, "m c"]
    ) -> Float64[Array, "n c"]:
        """The product of some columns of the matrix with those of `V`."""
        with float64():
            found = _exact_products(self.tiling, self._side(), self._side(chosen=chosen), V)
            return found[: self.n]

    def columns_squared(self, chosen: Int[np.ndarray, " m"]) -> Float64[Array, "m m"]:
        """The product of some columns, transposed, with themselves; sums are in float64."""
        tiling, m = self.tiling, len(chosen)
        with float64():
            columns = jax.tree.map(lambda v: v[:m], self._side(chosen=chosen))
            samples = self._side()
            sums = tiling.sums(m, m)
            for numbers in shares(self.blocks, tiling.devices).T:
                some = tiling.place(numbers, tiling.spread())
                sums = _add_squares(tiling, sums, samples, columns, some, np.int32(self.n))
            return _total(sums)

    def _side(self, points: Any = None, *, chosen: Int[np.ndarray, " m"] | None = None) -> "_Side":
        """All samples, some of them, or other points, with more rows up to whole tiles."""
        if points is None and chosen is None:
            own = jnp.pad(self.diagonal, (0, len(self.x) - self.n))
            return _Side(self.x, jnp.arange(len(self.x)), own.astype(self.x.dtype))
        rows = self.x[chosen] if points is None else jnp.asarray(points, self.x.dtype)
        more = -len(rows) % self.tiling.rows
        count = len(rows)
        rows = jnp.concatenate([rows, jnp.broadcast_to(rows[:1], (more, rows.shape[1]))])
        if chosen is None:
            return _Side(rows, jnp.full(len(rows), -1), jnp.zeros(len(rows), rows.dtype))
        numbers = jnp.pad(jnp.asarray(chosen), (0, more), constant_values=-1)
        own = jnp.pad(self.diagonal[chosen], (0, len(rows) - count))
        return _Side(rows, numbers, own.astype(rows.dtype))

    def exact(
        self, one: Float[Array, "t d"], two: Float[Array, "s d"] | None = None
    ) -> Float64[Array, "t _"]:
        """The kernel between few samples, in float64 if it can be; see `exact_eps`."""
        with float64():
            given = [jnp.asarray(v, jnp.float64) for v in (one, two) if v is not None]
            return jnp.asarray(self.kernel(*given), jnp.float64)


def streamed(
    kernel: Callable[..., Array],
    x: Float[Array | np.ndarray, "n d"],
    *,
    dtype: jax.typing.DTypeLike = "float32",
    rows: int | None = None,
    mesh: Mesh | None = None,
    exact: Callable[..., Array] | None = None,
) -> StreamedGram:
    """The matrix `kernel(x)` by products on the device, in tiles of `rows` rows.

    The kernel is called inside compiled programs, with blocks of rows in `dtype`; an argument
    `dtype` of its own is set to it. On a GPU products of float32 rows are made of halves in
    bfloat16. Kernels of the angle then take the angle of nearly parallel rows from its cosine
    alone: a cosine within 1e-6 of 1 is not told from 1. The diagonal is exact. `exact` is the same
    kernel for few samples, in float64 if it can be; by default the kernel itself.
    """
    backend = jax.default_backend()
    dtype = jnp.dtype(dtype)
    rows = rows or _TILE.get(backend, _TILE_ELSEWHERE)
    rows = min(rows, max(_DIAGONAL_ROWS, 2 ** math.ceil(math.log2(len(x)))))
    halved = backend == "gpu" and dtype == jnp.float32
    with float64():
        samples = jnp.asarray(x, dtype)
        _check_traced(kernel, samples)
        product = in_halves if halved else in_full
        tiling = Tiling.of(in_dtype(kernel, dtype), product, rows, samples, check_mesh(mesh))
        # Not copies of one row: where parallel rows are repaired, each pair of them takes time.
        whole = len(samples) + -len(samples) % rows
        samples = tiling.place(samples[np.arange(whole) % len(samples)])
        own = _diagonal(tiling, samples)[: len(x)]
        return StreamedGram(samples, own, exact or kernel, tiling)


def in_dtype(kernel: Callable[..., Array], dtype: jnp.dtype) -> Callable[..., Array]:
    """The kernel computed in `dtype`, where it has an argument of that name."""
    try:
        known = inspect.signature(kernel).parameters
    except (TypeError, ValueError):  # a callable that does not tell
        return kernel
    return functools.partial(kernel, dtype=dtype.name) if "dtype" in known else kernel


def _check_traced(kernel: Callable[..., Array], x: Float[Array, "n d"]) -> None:
    try:
        jax.eval_shape(lambda some: kernel(some), jax.ShapeDtypeStruct(x[:1].shape, x.dtype))
    except jax.errors.JAXTypeError as error:
        called = getattr(kernel, "kernel", kernel)  # of rows of samples, or widened
        raise TypeError(
            f"`kernel` must be a function that jax.jit takes, got {_named(called)}. Compute in "
            "jax.numpy, without NumPy functions and without `if` on values."
        ) from error


def _named(kernel: Callable[..., Array]) -> str:
    function = kernel.func if isinstance(kernel, functools.partial) else kernel
    return getattr(function, "__name__", type(function).__name__)


def _calls(pairs: Int[np.ndarray, "p 2"], tiling: Tiling) -> Iterator[tuple[int, Array]]:
    """The tiles of each call, as many per device; those that only fill up have the weight 0."""
    per_call = tiling.devices * min(_CALL, math.ceil(len(pairs) / tiling.devices))
    for start in range(0, len(pairs), per_call):
        some = pairs[start : start + per_call]
        listed = np.zeros((per_call, 3), np.int32)
        listed[: len(some), :2], listed[: len(some), 2] = some, 1
        # Neighbours go to different devices, which so have as many tiles on the diagonal.
        shape = per_call // tiling.devices, tiling.devices, 3
        by_device = listed.reshape(shape).swapaxes(0, 1)
        yield min(start + per_call, len(pairs)), tiling.place(by_device, tiling.spread())


@functools.partial(jax.jit, static_argnums=0, donate_argnums=3)
def _add_tiles(tiling: Tiling, x: Array, V: Array, sums: Array, pairs: Array) -> Array:
    add, spread = functools.partial(_add_on_device, tiling), tiling.spread()
    return tiling.on_devices(add, (WHOLE, WHOLE, spread, spread), spread)(x, V, sums, pairs)


def _add_on_device(tiling: Tiling, x: Array, V: Array, sums: Array, pairs: Array) -> Array:
    rows = tiling.rows

    def add(k: Array, sums: Array) -> Array:
        (i, j, weight), place = pairs[0, k], jnp.arange(rows, dtype=jnp.int32)
        (x1, V1), (x2, V2) = ((block(x, b, rows), block(V, b, rows)) for b in (i, j))
        off_diagonal = (place[:, None] != place[None, :]) | (i != j)
        T = jnp.where(off_diagonal, tiling.entries(x1, x2), 0) * weight.astype(x.dtype)
        # Stored once: else the programs of both products would each evaluate the kernel.
        T = jax.lax.optimization_barrier(T)
        sums = _add_rows(sums, i * rows, _times(T, V2))
        return _add_rows(sums, j * rows, _times(T.T, jnp.where(i != j, V1, 0)))

    return jax.lax.fori_loop(0, pairs.shape[1], add, sums)


def _add_rows(sums: Array, start: Array, more: Array) -> Array:
    old = jax.lax.dynamic_slice_in_dim(sums, start, len(more), axis=1)
    new = old + more[None].astype(sums.dtype)
    return jax.lax.dynamic_update_slice_in_dim(sums, new, start, axis=1)


def _times(T: Array, V: Array) -> Array:
    return jnp.matmul(T, V, precision=jax.lax.Precision.HIGHEST)


def _exact_products(tiling: Tiling, one: _Side, two: _Side, V: Any) -> Float64[Array, "N1 c"]:
    """The product of the kernel between two sides with V, with V to all its digits.

    Rounding the coefficients of few samples would add a smooth function, which the matrix of a
    million samples magnifies by its largest eigenvalue: the first ten iterations got nowhere.
    """
    V = _padded(jnp.asarray(V, jnp.float64), len(two.x))
    high = V.astype(one.x.dtype)
    if one.x.dtype == V.dtype:
        return _products(tiling, one, two, V)
    low = (V - high.astype(V.dtype)).astype(one.x.dtype)
    both = _products(tiling, one, two, jnp.hstack([high, low]))
    return both[:, : V.shape[1]] + both[:, V.shape[1] :]


@functools.partial(jax.jit, static_argnums=0)
def _products(tiling: Tiling, one: _Side, two: _Side, V: Array) -> Float64[Array, "N1 c"]:
    """The product tile by tile, of which each device has a share along the longer side."""
    longest = max(len(one.x), len(two.x)) // tiling.rows
    multiply = functools.partial(_multiply_on_device, tiling)
    specs = (WHOLE, WHOLE, WHOLE, tiling.spread())
    mine = jnp.asarray(shares(longest, tiling.devices).ravel())
    return tiling.on_devices(multiply, specs, WHOLE)(one, two, V, mine)[: len(one.x)]


def _multiply_on_device(
    tiling: Tiling, one: _Side, two: _Side, V: Array, mine: Array
) -> Float64[Array, "_ c"]:
    rows, by_rows = tiling.rows, len(one.x) >= len(two.x)
    numbers1 = mine if by_rows else jnp.arange(len(one.x) // rows)
    numbers2 = jnp.arange(len(two.x) // rows) if by_rows else mine

    def part(side: _Side, number: Array) -> _Side:
        return jax.tree.map(lambda v: block(v, number, rows), side)

    def along(i: Array) -> Array:
        def add(k: Array, total: Array) -> Array:
            j = numbers2[k]
            T = _entries(tiling, part(one, i), part(two, j))
            return total + jnp.where(j < 0, 0, _times(T, block(V, j, rows))).astype(total.dtype)

        start = jnp.zeros((rows, V.shape[1]), jnp.float64)
        return jax.lax.fori_loop(0, len(numbers2), add, start)

    found = jax.lax.map(along, numbers1).reshape(-1, V.shape[1])
    if tiling.mesh is None:
        return found
    axes = tiling.mesh.axis_names
    return jax.lax.all_gather(found, axes, tiled=True) if by_rows else jax.lax.psum(found, axes)


def _entries(tiling: Tiling, one: _Side, two: _Side) -> Float[Array, "b1 b2"]:
    same = one.number[:, None] == two.number[None, :]
    same &= one.number[:, None] >= 0
    return jnp.where(same, two.own[None, :], tiling.entries(one.x, two.x))


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)
def _add_squares(
    tiling: Tiling, sums: Array, samples: _Side, columns: _Side, numbers: Array, n: Any
) -> Array:
    add, spread = functools.partial(_add_square, tiling), tiling.spread()
    specs = (spread, WHOLE, WHOLE, spread, WHOLE)
    return tiling.on_devices(add, specs, spread)(sums, samples, columns, numbers, n)


def _add_square(
    tiling: Tiling, sums: Array, samples: _Side, columns: _Side, numbers: Array, n: Array
) -> Array:
    rows, number = tiling.rows, numbers[0]
    some = jax.tree.map(lambda v: block(v, number, rows), samples)
    place = number * rows + jnp.arange(rows, dtype=number.dtype)
    valid = (number >= 0) & (place < n)
    C = jnp.where(valid[:, None], _entries(tiling, some, columns), 0).astype(sums.dtype)
    return sums + jnp.matmul(C.T, C, precision=jax.lax.Precision.HIGHEST)[None]


@functools.partial(jax.jit, static_argnums=0)
def _diagonal(tiling: Tiling, x: Array) -> Float64[Array, " N"]:
    squares = x.reshape(-1, min(_DIAGONAL_ROWS, len(x)), x.shape[1])
    own = jax.lax.map(lambda some: jnp.diagonal(tiling.kernel(some)), squares)
    return own.reshape(-1).astype(jnp.float64)


@jax.jit
def _total(sums: Float64[Array, "devices N c"]) -> Float64[Array, "N c"]:
    return jnp.sum(sums, axis=0)


def _padded(V: Array, rows: int) -> Array:
    return jnp.pad(V, ((0, rows - len(V)), (0, 0)))


def _report(progress: Progress | None, done: int, total: int, sums: Array) -> None:
    if progress is not None:
        jax.block_until_ready(sums)
        progress(done, total)
