# SPDX-License-Identifier: Apache-2.0
"""A Gram matrix in square tiles, each evaluated when needed, under a budget of memory."""

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh
from jaxtyping import Array, Float, Float64, Int, Shaped

from unlazy.core.compiling import jit_untuned_static
from unlazy.core.float64 import float64
from unlazy.core.meshes import to_host
from unlazy.kernels.parts import even_parts, of_one_size
from unlazy.kernels.precision import Widened
from unlazy.kernels.sizes import rows_for
from unlazy.kernels.spread import spread_columns, spread_gram, upper_tiles
from unlazy.kernels.streaming import StreamedGram
from unlazy.linalg.iterative import Matmat, Progress

_TEMPORARIES = 6  # arrays of a tile's size that evaluating one and using it holds at a time
_TILE_SHARE = 8  # one part in so many of the budget is for tiles
_SMALLEST_TILE = 16
_LARGEST_TILE = {"cpu": 2048}  # beyond, speed gains nothing and memory is lost
_LARGEST_TILE_ELSEWHERE = 8192
_WASTEFUL = 512  # rows of a tile from which on the time for rows that pad it shows
_DIAGONAL_TILE = {"cpu": 128}  # rows: of such a tile only the diagonal is used
_DIAGONAL_TILE_ELSEWHERE = 1024  # there the number of calls costs more than the tiles


@runtime_checkable
class Kernel(Protocol):
    """A kernel function: `kernel(x1)` is symmetric, `kernel(x1, x2)` has one row per row of x1."""

    def __call__(self, x1: Array, x2: Array | None = None, /) -> Array:
        """The kernel between the rows of `x1` and of `x2`, or of `x1` itself."""
        ...


class Tiles(eqx.Module):
    """The matrix `kernel(x)`, as tiles, products and copies in memory."""

    kernel: Callable
    x: Shaped[Array, "n *d"]  # in float64, but for the samples of a network (`GradientTiles`)
    memory: int = eqx.field(static=True)  # bytes; with a mesh, on each device
    spread: StreamedGram | None = eqx.field(default=None, kw_only=True)  # over a mesh

    @classmethod
    def over(cls, kernel: Callable, x: Array, memory: int, mesh: Mesh | None) -> "Tiles":
        """The tiles, evaluated on all devices of a mesh if there is one."""
        gram = None if mesh is None else spread_gram(kernel, x, memory, mesh)
        return Tiles(kernel, x, memory, spread=gram)

    @property
    def n(self) -> int:
        """Rows of the matrix."""
        return self.x.shape[0]

    @property
    def eps(self) -> float:
        """The relative rounding of entries in float32; zero for a kernel in float64."""
        return float(np.finfo(np.float32).eps) if isinstance(self.kernel, Widened) else 0.0

    @property
    def noise(self) -> float:
        """Twice the norm of the rounding errors, for a unit diagonal and independent errors."""
        return 4 * math.sqrt(self.n) * self.eps

    @property
    def by_products(self) -> bool:
        """Whether products cost less than tiles, so that no matrix is made unless asked for."""
        return False

    @property
    def per_sample(self) -> int:
        """Rows of the matrix that a sample has, side by side."""
        return 1

    @property
    def product_eps(self) -> float:
        """The relative rounding of a product."""
        return float(np.finfo(np.float64).eps)

    def attainable(self, tolerance: float) -> float:
        """The tolerance, or what iterations on products in lower precision can reach."""
        return max(tolerance, 4 * self.product_eps) if self.by_products else tolerance

    @property
    def on_host(self) -> bool:
        """Whether the samples lie in the memory that NumPy and LAPACK work in."""
        return self._platform == "cpu"

    @property
    def _platform(self) -> str:
        return next(iter(self.x.devices())).platform

    def fits(self, itemsize: int = 8) -> bool:
        """Whether one square matrix fits the budget, beside the tiles."""
        return self._copies * itemsize * self.n**2 <= self.memory - self.memory // _TILE_SHARE

    def least(self, itemsize: int = 8) -> int:
        """The least budget that one square matrix fits."""
        return math.ceil(self._copies * itemsize * self.n**2 * _TILE_SHARE / (_TILE_SHARE - 1))

    @property
    def _copies(self) -> int:
        # Off the host the factorisation may need a second copy of its matrix.
        return 1 if self.on_host else 2

    def spans(self) -> list[slice]:
        """The rows (and columns) that each tile is there for; their numbers differ by 1 at most."""
        return [slice(start, stop) for start, stop in self._parts()]

    def _parts(self) -> list[tuple[int, int]]:
        side = math.isqrt(self.memory // (_TILE_SHARE * _TEMPORARIES * 8))
        most = _LARGEST_TILE.get(self._platform, _LARGEST_TILE_ELSEWHERE)
        count = math.ceil(self.n / min(max(side, _SMALLEST_TILE), most))
        if self.n > _WASTEFUL * count:
            # Kernels pad tiles to few sizes: of some more and smaller ones, those that waste least.
            more = range(count, 2 * count + 1)
            count = min(more, key=lambda count: count * rows_for(math.ceil(self.n / count)))
        return even_parts(self.n, count)

    def _evaluated(self) -> list[slice]:
        """The rows of the tiles as evaluated: some reach back by a row, to be of one shape.

        Each shape would be compiled by itself, on an accelerator in seconds.
        """
        blocks = of_one_size(self._parts())
        return [slice(start, start + blocks.size) for start in blocks.starts]

    def tile(self, rows: slice, columns: slice) -> Float64[Array, "n1 n2"]:
        """One tile; on the diagonal by the symmetric form of the kernel, which is exact there."""
        with float64():
            x1 = _rows(self.x, rows.start, rows.stop - rows.start)
            if rows == columns:
                return self.kernel(x1)
            return self.kernel(x1, _rows(self.x, columns.start, columns.stop - columns.start))

    def block(
        self, rows: Int[np.ndarray, " r"], columns: Int[np.ndarray, " c"]
    ) -> Float64[Array | np.ndarray, "r c"]:
        """The entries in some rows and columns, on the diagonal by the symmetric form."""
        with float64():
            if np.array_equal(rows, columns):
                return self.kernel(self.x[rows])
            return self.kernel(self.x[rows], self.x[columns])

    def take(self, rows: Int[np.ndarray, " r"]) -> "Tiles":
        """The matrix of some of the samples."""
        with float64():
            mesh = None if self.spread is None else self.spread.tiling.mesh
            return Tiles.over(self.kernel, self.x[rows], self.memory, mesh)

    def upper(self) -> Iterator[tuple[slice, slice, Float64[Array | np.ndarray, "n1 n2"]]]:
        """Tiles on and above the diagonal: the rest are their mirror images.

        All are of one shape, but the last ones over a mesh. Rows that two tiles share lie in the
        later of them in full: a tile replaces what those before it left there.
        """
        if self.spread is not None:
            yield from upper_tiles(self.spread)
            return
        spans = self._evaluated()
        for i, rows in enumerate(spans):
            for columns in spans[i:]:
                yield rows, columns, self.tile(rows, columns)

    def columns(self, rows: Int[np.ndarray, " b"], width: int = 0) -> Float64[np.ndarray, "n b"]:
        """Some columns of the matrix, evaluated `width` at a time if they are fewer."""
        padded = np.pad(rows, (0, max(0, width - len(rows))), mode="edge")
        with float64():
            some = _chosen(self.x, padded)
            if self.spread is not None:
                return spread_columns(self.spread, some)[:, : len(rows)]
            out = np.empty((self.n, len(rows)))
            for span in self._evaluated():
                part = _rows(self.x, span.start, span.stop - span.start)
                out[span] = np.asarray(self.kernel(part, some))[:, : len(rows)]
        return out

    def diagonal(self) -> Float64[np.ndarray, " n"]:
        """The diagonal, from small tiles along it."""
        if self.spread is not None:
            return to_host(self.spread.diagonal)
        side = min(self.n, _DIAGONAL_TILE.get(self._platform, _DIAGONAL_TILE_ELSEWHERE))
        out = np.empty(self.n)
        for start in range(0, self.n, side):
            # The last one reaches back, to be of the same shape: each shape compiles anew.
            span = slice(min(start, self.n - side), min(start, self.n - side) + side)
            out[span] = np.diagonal(np.asarray(self.tile(span, span)))
        return out

    def matmat(self, V: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
        """The product with the columns of `V`, each tile evaluated once for both its sides."""
        if self.spread is not None:
            return to_host(self.spread.matmat(V))
        spans, host = self._evaluated(), self.on_host
        # Of rows that two tiles share, the later tile counts: they are zero in the one before.
        ends = [*(span.start for span in spans[1:]), self.n]
        parts: list[Any] = []
        for span, end in zip(spans, ends, strict=True):
            parts.append(np.where(np.arange(span.start, span.stop)[:, None] < end, V[span], 0.0))
        with float64():
            out: list[Any] = [np.zeros_like(part) for part in parts]
            if not host:
                parts, out = ([jnp.asarray(part) for part in some] for some in (parts, out))
            add = _add_on_host if host else _add_on_device
            place = {span.start: k for k, span in enumerate(spans)}
            for rows, columns, tile in self.upper():
                i, j = place[rows.start], place[columns.start]
                out[i] = add(False, out[i], tile, parts[j])
                if i != j:
                    out[j] = add(True, out[j], tile, parts[i])
        result = np.empty(V.shape)
        for span, total in zip(spans, out, strict=True):
            result[span] = np.asarray(total)
        return result

    def assemble(
        self,
        dtype: type = np.float64,
        *,
        scale: Float64[np.ndarray, " n"] | None = None,
        shift: int | float = 0.0,
        progress: Progress | None = None,
    ) -> Float[np.ndarray | Array, "n n"]:
        """`S H S + shift I` in memory: a NumPy array on the host, else a JAX array."""
        with float64():
            shape = (self.n, self.n)
            host = self.on_host
            H: Any = np.empty(shape, dtype) if host else jnp.zeros(shape, dtype)
            is_plain = scale is None and shift == 0 and dtype == np.float64
            scale = np.ones(self.n) if scale is None else scale
            across = len(self.spans()) if self.spread is None else self.spread.blocks
            total = across * (across + 1) // 2
            for k, (rows, columns, tile) in enumerate(self.upper()):
                if not is_plain:
                    added = float(shift) if rows == columns else 0.0
                    tile = _finished(dtype, tile, scale[rows], scale[columns], added)
                place = _place_on_host if host else _place_on_device
                H = place(H, tile, rows.start, columns.start)
                if progress is not None:
                    progress(k + 1, total)
            return H

    def products(self) -> Matmat:
        """A function for many products: by a matrix in memory if one fits, else by tiles."""
        if not self.fits():
            return self.matmat
        H = self.assemble()

        def matmat(V: Float64[np.ndarray, "n c"]) -> Float64[np.ndarray, "n c"]:
            if isinstance(H, np.ndarray):
                return H @ V
            with float64(), jax.default_matmul_precision("highest"):
                return np.asarray(H @ jnp.asarray(V))

        return matmat

    def first_parallel(self, closeness: float = 1e-7) -> Int[np.ndarray, " n"]:
        """For each row, the first row that is parallel to it under the kernel; usually itself."""
        norm = np.sqrt(np.maximum(self.diagonal(), 0.0))
        first = np.arange(self.n)
        for rows, columns, tile in self.upper():
            parallel = np.asarray(tile) >= (1 - closeness) * norm[rows, None] * norm[None, columns]
            parallel = np.triu(parallel, k=1 + rows.start - columns.start)
            found = np.flatnonzero(parallel.any(axis=0))
            earliest = rows.start + parallel[:, found].argmax(axis=0)
            j = columns.start + found
            first[j] = np.minimum(first[j], earliest)
        return first


def _place_on_host(H: np.ndarray, tile: Array | np.ndarray, i: int, j: int) -> np.ndarray:
    T = np.asarray(tile)
    H[i : i + T.shape[0], j : j + T.shape[1]] = T
    if i != j:
        H[j : j + T.shape[1], i : i + T.shape[0]] = T.T
    return H


def _place_on_device(H: Array, tile: Array | np.ndarray, i: int, j: int) -> Array:
    H = _set_block(False, H, tile, i, j)
    return H if i == j else _set_block(True, H, tile, j, i)


def _add_on_host(
    mirrored: bool, out: np.ndarray, tile: Array | np.ndarray, part: np.ndarray
) -> np.ndarray:
    T = np.asarray(tile)
    return out + (T.T if mirrored else T) @ part


@jit_untuned_static
def _add_on_device(mirrored: bool, out: Array, tile: Array | np.ndarray, part: Array) -> Array:
    T = tile.T if mirrored else tile
    return out + jnp.matmul(T, part, precision=jax.lax.Precision.HIGHEST)


# In one program: operations of `jax.numpy` by themselves would each be compiled.
@functools.partial(jax.jit, static_argnums=0)
def _finished(dtype: type, tile: Array, left: Array, right: Array, shift: Array) -> Array:
    # The scales first: their product commutes to the last bit.
    scaled = tile * (left[:, None] * right[None, :])
    return (scaled + shift * jnp.eye(len(tile), tile.shape[1])).astype(dtype)


@jax.jit
def _chosen(x: Array, rows: Array) -> Array:
    return x[rows]


@functools.partial(jax.jit, static_argnums=2)  # the start is traced: one program for all tiles
def _rows(x: Array, start: int | Array, size: int) -> Array:
    return jax.lax.dynamic_slice_in_dim(x, start, size)


@functools.partial(jax.jit, static_argnums=0, donate_argnums=1)  # in place: two may not fit
def _set_block(mirrored: bool, H: Array, tile: Array, i: int | Array, j: int | Array) -> Array:
    return jax.lax.dynamic_update_slice(H, tile.T if mirrored else tile, (i, j))
