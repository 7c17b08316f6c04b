# SPDX-License-Identifier: Apache-2.0
r"""Products of a tangent kernel with vectors: no kernel and no Jacobian is ever held.

With J the Jacobian of all outputs, $\Theta V = J (J^\top V)$: gradients of weighted sums of the
outputs, added up over blocks of samples, then the derivatives of the outputs along them.
"""

import functools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import Jaxpr
from jaxtyping import Array, Float, Float64, PyTree

from unlazy.core.compiling import jit_network
from unlazy.core.float64 import float64
from unlazy.core.jaxprs import programs_in, shaped
from unlazy.kernels.empirical.blockwise import starts
from unlazy.kernels.empirical.model import Model
from unlazy.linalg.iterative import Progress

# Bytes beyond which larger blocks are no faster.
_ENOUGH = {"cpu": 2**30}
_ENOUGH_ELSEWHERE = 2**33


class ProductCost(NamedTuple):
    """Bytes of temporary memory, an estimate."""

    row: int  # for the values of the network at one sample
    gradient: int  # for one gradient, while gradients are added up

    def layout(self, columns: int, memory: int | float) -> tuple[int, int]:
        """Rows and columns of `V` at a time."""
        budget = min(memory / 2, _ENOUGH.get(jax.default_backend(), _ENOUGH_ELSEWHERE))
        columns = min(columns, max(1, int(budget / 2 / self.gradient)))
        # The values are held for all columns, a perturbation of them and its copy for each.
        left = max(budget / 2, budget - columns * self.gradient)
        return max(1, int(left / (self.row * (1 + 2 * columns)))), columns


def product_cost(model: Model, trained: PyTree, x: Array) -> ProductCost:
    """The memory that a product of the kernel of samples like `x` takes."""
    one, two = (
        _size(
            jax.make_jaxpr(model.batch)(
                trained, jax.ShapeDtypeStruct((rows, *x.shape[1:]), x.dtype)
            ).jaxpr
        )
        for rows in (1, 2)
    )
    # The difference leaves out what is computed from the parameters alone.
    row = max(two - one, x.itemsize * x[0].size, 1)
    leaves = jax.tree.leaves(trained)
    # A gradient of a block, the sum in float64, and the sum as it is pushed forward.
    return ProductCost(row, sum(leaf.size * (8 + 2 * leaf.itemsize) for leaf in leaves))


def _size(jaxpr: Jaxpr) -> int:
    """Bytes of all values of a program, those of every turn of a loop included."""
    total = 0
    for eqn in jaxpr.eqns:
        total += sum(shaped(v).size * shaped(v).dtype.itemsize for v in eqn.outvars)
        turns = eqn.params.get("length", 1)
        total += turns * sum(_size(inner) for inner in programs_in(eqn))
    return total


class Products(NamedTuple):
    """What products are made with."""

    model: Model
    trained: PyTree
    x: Array
    cost: ProductCost
    memory: int
    x64: bool  # JAX's setting that the network is called with
    progress: Progress | None

    def __call__(self, V: Float64[np.ndarray, "n c k"]) -> Float64[np.ndarray, "n c k"]:
        """The kernel of all outputs times the columns of `V`."""
        rows, columns = self.cost.layout(V.shape[2], self.memory)
        # Of order one: float32 has no room for the last corrections of a solve.
        size = np.max(np.abs(V), axis=(0, 1))
        size = np.where(size > 0, size, 1.0)
        begins, block = starts(len(V), rows)
        edges = range(0, V.shape[2], columns)
        report = _Report(self.progress, 2 * len(begins) * len(edges))
        out = np.empty(V.shape)
        with float64(self.x64), jax.default_matmul_precision("highest"):
            model = self.model.as_it_is_now(self.trained, self.x)
            for k in edges:
                some = slice(k, k + columns)
                weights = V[:, :, some] / size[some]
                gradients = self._pulled(model, weights, begins, block, report)
                for i in begins:
                    at = slice(i, i + block)
                    pushed = _push(model, self.trained, self._rows(i, block), gradients)
                    out[at, :, some] = np.asarray(pushed, np.float64) * size[some]
                    report(pushed)
        return out

    def _pulled(
        self,
        model: Model,
        V: Float64[np.ndarray, "n c k"],
        begins: list[int],
        block: int,
        report: "_Report",
    ) -> PyTree:
        """The gradients of the outputs, weighted by the columns of `V` and added up."""
        total, done = None, 0
        for i in begins:
            weights = V[i : i + block].copy()
            weights[: done - i] = 0.0  # the last block overlaps the one before
            done = i + block
            x = self._rows(i, block)
            some = _pull(model, self.trained, x, jnp.asarray(weights, _float(self.x64)))
            jax.block_until_ready(some)  # or else the values of several blocks would be held
            with float64():  # thousands of blocks would lose digits in float32
                total = _wide(some) if total is None else _added(total, some)
            report(total)
        with float64():
            return _like(total, self.trained)

    def _rows(self, start: int, size: int) -> Array:
        return jax.lax.dynamic_slice_in_dim(self.x, start, size)


class _Report:
    def __init__(self, progress: Progress | None, total: int) -> None:
        self.progress, self.total, self.done = progress, total, 0

    def __call__(self, computed: Any) -> None:
        self.done += 1
        if self.progress is not None:
            jax.block_until_ready(computed)
            self.progress(self.done, self.total)


def _float(x64: bool) -> Any:
    return jnp.float64 if x64 else jnp.float32


@jit_network
def _pull(model: Model, trained: PyTree, x: Array, V: Float[Array, "b c k"]) -> PyTree:
    out, pull = jax.vjp(lambda trained: model.batch(trained, x), trained)
    weights = V.astype(out.dtype)
    return jax.vmap(lambda v: pull(v)[0], in_axes=2)(weights)


@jit_network
def _push(model: Model, trained: PyTree, x: Array, gradients: PyTree) -> Float[Array, "b c k"]:
    def along(gradient: PyTree) -> Float[Array, "b c"]:
        return jax.jvp(lambda trained: model.batch(trained, x), (trained,), (gradient,))[1]

    return jax.vmap(along, out_axes=2)(gradients)


@jax.jit
def _wide(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf.astype(jnp.float64), tree)


@functools.partial(jax.jit, donate_argnums=0)
def _added(total: PyTree, some: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: a + b.astype(jnp.float64), total, some)


@jax.jit
def _like(total: PyTree, trained: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), total, trained)


def rounding_of(trained: PyTree) -> float:
    """The relative rounding of a product: that of its least precise parameters."""
    return max(float(jnp.finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(trained))


def least_rows(x: Array) -> np.ndarray:
    """For each sample, the number of the first one that is equal to it."""
    flat = np.ascontiguousarray(np.asarray(x).reshape(x.shape[0], math.prod(x.shape[1:])))
    if flat.shape[1] == 0:
        return np.zeros(len(flat), int)
    keys = flat.view(np.dtype((np.void, flat.dtype.itemsize * flat.shape[1]))).ravel()
    _, first, where = np.unique(keys, return_index=True, return_inverse=True)
    return first[where.reshape(-1)]
