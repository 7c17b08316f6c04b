# SPDX-License-Identifier: Apache-2.0
"""Tangent features: gradients of the outputs per sample, as factors where they factorise."""

import itertools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from unlazy.core.jaxprs import Program, Step, read, trace
from unlazy.kernels.empirical.gradient_products import (
    are_in_halves,
    outer_sums,
    product_with_weight,
)
from unlazy.kernels.empirical.layers import Layer, find_layers, unused_leaves
from unlazy.kernels.empirical.model import Model

# Rows of the product; below, products lose more than symmetry saves.
_SMALLEST_PART = 128
_SMALLEST_ON_ACCELERATOR = 256
_SMALL_LEAF = 4096  # entries; gradients of smaller leaves are contracted in one product


class Outer(NamedTuple):
    r"""Gradients $A^\top B$ of one layer's weight, never multiplied out."""

    A: Float[Array, "n s k"]  # the layer's inputs, one row per position
    B: Float[Array, "n c s o"]  # gradients of the outputs with respect to the layer's outputs


class Features(NamedTuple):
    """The gradients of the outputs with respect to all trained parameters."""

    flat: list[Float[Array, "n c _"]]
    outer: list[Outer]


class Recipe(NamedTuple):
    """How the features of a sample are computed."""

    program: Program
    layers: list[Layer]
    flat: list[int]  # the leaves whose gradients are taken as they are
    traced: bool
    entrywise: bool  # whether every entry of a gradient is needed, or a product of its factors

    def leaves(self) -> list[int]:
        """The leaves in the order of their features: those taken as they are, then the layers."""
        return [*self.flat, *dict.fromkeys(layer.leaf for layer in self.layers)]


def make_recipe(
    model: Model,
    trained: PyTree,
    x: Array | jax.ShapeDtypeStruct,
    *,
    layerwise: bool,
    traced: bool,
    entrywise: bool = False,
) -> Recipe:
    """Trace the network at one sample and find its layers."""
    leaves, structure = jax.tree.flatten(trained)

    def sample(leaves, x):
        return model(jax.tree.unflatten(structure, leaves), x)

    program = trace(sample, leaves, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    layers = find_layers(program, len(leaves)) if layerwise else []
    taken = {layer.leaf for layer in layers} | unused_leaves(program, len(leaves))
    taken |= {layer.bias.leaf for layer in layers if layer.bias is not None}
    flat = [k for k in range(len(leaves)) if k not in taken]
    if not flat and not layers:
        flat = [0]  # no leaf is used at all: a gradient of zeros gives the kernel its shape
    return Recipe(program, layers, flat, traced, entrywise)


def features(
    recipe: Recipe,
    trained: PyTree,
    x: Array,
    dtype: np.dtype,
    parts: int = 1,
    *,
    signed: bool = False,
) -> list[Features]:
    """The features of all rows of `x`, or their signs, in at most that many consecutive parts."""
    gradients, factors = _of_rows(recipe, trained, x)
    in_halves = _are_in_halves(recipe, x, dtype)
    flat = [g.reshape(*g.shape[:2], -1).astype(dtype) for g in gradients]
    outer = [Outer(A.astype(dtype), B.astype(dtype)) for A, B in factors]
    edges = _edges(flat, outer, recipe.traced, parts)
    # Parts are cut before anything is multiplied out: XLA then writes each where it is computed. A
    # slice of a finished array is a copy, which costs the contraction as much as symmetry saves.
    parts_of = [_rows((flat, outer), *edge) for edge in itertools.pairwise(edges)]
    found = [_contractible(flat, outer, recipe, in_halves=in_halves) for flat, outer in parts_of]
    return jax.tree.map(jnp.sign, found) if signed else found


def features_by_leaf(
    recipe: Recipe, trained: PyTree, x: Array, dtype: np.dtype, *, signed: bool = False
) -> list[Features]:
    """The features of all rows of `x`, or their signs, leaf by leaf as in `recipe.leaves()`."""
    gradients, factors = _of_rows(recipe, trained, x)
    in_halves = _are_in_halves(recipe, x, dtype)
    found = [Features([g.reshape(*g.shape[:2], -1).astype(dtype)], []) for g in gradients]
    for A, B in factors:
        outer = [Outer(A.astype(dtype), B.astype(dtype))]
        found.append(_contractible([], outer, recipe, in_halves=in_halves))
    return jax.tree.map(jnp.sign, found) if signed else found


def _rows(tree: PyTree, start: int, stop: int) -> PyTree:
    return jax.tree.map(lambda array: array[start:stop], tree)


def _edges(flat: list[Array], outer: list[Outer], traced: bool, parts: int) -> list[int]:
    n, c = flat[0].shape[:2] if flat else outer[0].B.shape[:2]
    rows = n if traced else n * c
    least = _SMALLEST_PART if jax.default_backend() == "cpu" else _SMALLEST_ON_ACCELERATOR
    count = max(min(parts, rows // least, n), 1)
    return [n * k // count for k in range(count + 1)]


def _contractible(
    flat: list[Float[Array, "n c _"]], outer: list[Outer], recipe: Recipe, *, in_halves: bool
) -> Features:
    better = [o for o in outer if _is_better_flat(o, recipe)]
    flat = flat + [_multiplied_out(o, in_halves=in_halves) for o in better]
    small = [g for g in flat if g.shape[2] <= _SMALL_LEAF]
    large = [g for g in flat if g.shape[2] > _SMALL_LEAF]
    joined = [*large, jnp.concatenate(small, axis=2)] if small else large
    return Features(joined, [o for o in outer if not _is_better_flat(o, recipe)])


class Cost(NamedTuple):
    """Bytes of temporary memory, an estimate."""

    row: int  # for the features of one sample, while they are computed
    kept: int  # for the features of one sample
    pair: int  # for the contraction, each pair of samples

    def whole(self, rows: int) -> int:
        """What the kernel of so many rows takes if all are computed at a time."""
        return rows * (2 * self.row + self.pair * rows)

    def block(self, memory: int | float, sides: int = 2) -> int:
        """The most rows of a block whose kernel with another fits; 0 if not even one does.

        With one side, the kernel of the block with itself.
        """
        # pair b^2 + sides row b = memory
        half = sides * self.row / 2
        root = math.sqrt(half**2 + self.pair * memory)
        return int(memory / (half + root))

    def blocks(self, rows: int, memory: int | float, sides: int = 2) -> "Blocks":
        """All rows at a time where they fit; else half of the memory is for blocks that are held.

        Features take less memory once they are computed, and the more of them are held, the less
        often the others are computed again. On a processor, where all features can be held, blocks
        are as large as the rest of the memory allows. With one side, the rows meet themselves
        alone, in wide products: gradients of a transformer at 200 samples were contracted in
        104 ms on one H200, in three blocks in 161 ms.
        """
        if rows <= self.block(memory, sides):
            return Blocks(rows, 1)
        size = max(1, self.block(memory / 2))
        spared = max(memory / 2, memory - self.whole(size))
        on_processor = jax.default_backend() == "cpu"
        if on_processor and sides == 1 and (largest := self._beside_all(rows, memory)) >= size:
            return Blocks(largest, math.ceil(rows / largest))
        return Blocks(size, max(1, int(spared / (size * self.kept))))

    def _beside_all(self, rows: int, memory: int | float) -> int:
        """The most rows of a block for which there is room beside the features of all rows."""
        spare = memory - rows * self.kept
        if spare <= 0:
            return 0
        return int(min(spare / (self.row - self.kept), math.sqrt(spare / self.pair)))


class Blocks(NamedTuple):
    """How many rows are computed at a time, and how many such blocks are held."""

    rows: int
    held: int


def cost(recipe: Recipe, trained: PyTree, x: Array | jax.ShapeDtypeStruct, dtype: np.dtype) -> Cost:
    """The memory that the features of samples like `x`, and their kernel, take."""
    row = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
    (of,) = jax.eval_shape(lambda row: features(recipe, trained, row, dtype), row)
    found = jax.eval_shape(lambda row: _of_rows(recipe, trained, row), row)
    c = of.flat[0].shape[1] if of.flat else of.outer[0].B.shape[1]
    pairs = 1 if recipe.traced else c**2
    positions = max((o.A.shape[1] for o in of.outer), default=1)
    grams = positions**2 * (2 + pairs) if positions > 1 else 0
    kept, passing = (sum(array.size for array in jax.tree.leaves(tree)) for tree in (of, found))
    # Twice: the network's values and their gradients are as large as the factors.
    sizes = 2 * (kept + passing), kept, 3 * pairs + grams
    return Cost(*(size * dtype.itemsize for size in sizes))


def _of_rows(recipe: Recipe, trained: PyTree, x: Array):
    leaves = jax.tree.leaves(trained)
    in_halves = _are_in_halves(recipe, x, jnp.result_type(*leaves))
    return jax.vmap(lambda row: _of_sample(recipe, leaves, row, in_halves=in_halves))(x)


def _are_in_halves(recipe: Recipe, x: Array, dtype: Any) -> bool:
    # Rounding gives a gradient that nearly vanishes another sign.
    return not recipe.entrywise and are_in_halves(len(x), dtype)


def _of_sample(recipe: Recipe, leaves: list[Array], x: Array, *, in_halves: bool):
    program, steps = recipe.program, recipe.program.steps
    weights = {layer.step: layer.side for layer in recipe.layers} if in_halves else {}

    def outputs(chosen, shifts):
        full = list(leaves)
        for k, leaf in zip(recipe.flat, chosen, strict=True):
            full[k] = leaf
        values = run_shifted(program, [*full, x], shifts, weights)
        inputs = [layer.inputs(steps[layer.step], values) for layer in recipe.layers]
        return read(values, program.results[0]), inputs

    # Zeros to differentiate at; XLA removes the additions.
    shifts = {}
    for layer in recipe.layers:
        z = steps[layer.tap].result()
        shifts[layer.tap] = jnp.zeros(z.shape, z.dtype)
    chosen = [leaves[k] for k in recipe.flat]
    out, pull, inputs = jax.vjp(outputs, chosen, shifts, has_aux=True)
    gradients, dz = jax.vmap(pull)(jnp.eye(out.shape[0], dtype=out.dtype))
    uses: dict[int, list[Outer]] = {}
    for layer, A in zip(recipe.layers, inputs, strict=True):
        B = layer.cotangents(steps[layer.step], dz[layer.tap])
        uses.setdefault(layer.leaf, []).append(Outer(A, B))
    return gradients, [_stacked(found) for found in uses.values()]


def run_shifted(
    program: Program,
    arguments: list[Array],
    shifts: dict[int, Array],
    weights: Mapping[int, int] = MappingProxyType({}),
) -> dict[int, Any]:
    """Every value of the program, with `shifts[k]` added to the first result of step k.

    A step of `weights` multiplies a weight, its operand of that number, and is differentiated with
    respect to the other operand by products of halves.
    """

    def rule(k: int, step: Step, operands: list[Any]) -> list[Any]:
        if k in weights:
            results = product_with_weight(step, weights[k], operands)
        else:
            results = step(*operands)
        if k in shifts:
            results[0] = results[0] + shifts[k]
        return results

    return program.run(arguments, rule)


def _stacked(uses: list[Outer]) -> Outer:
    """The gradient of a weight that is used several times: its uses are further positions."""
    if len(uses) == 1:
        return uses[0]
    A, B = zip(*uses, strict=True)
    return Outer(jnp.concatenate(A), jnp.concatenate(B, axis=1))


def _is_better_flat(outer: Outer, recipe: Recipe) -> bool:
    """Whether the gradients themselves are cheaper to contract than their factors.

    Multiplications for a pair of samples: factors need two Gram matrices over the positions.
    """
    s, k = outer.A.shape[1:]
    c, o = outer.B.shape[1], outer.B.shape[3]
    if recipe.entrywise:  # the sign of a product is that of its factors; that of a sum is not
        return s > 1
    pairs = c if recipe.traced else c**2
    return pairs * k * o < s**2 * (k + pairs * (o + 1))


def _multiplied_out(outer: Outer, *, in_halves: bool) -> Float[Array, "n c p"]:
    # One product per sample, outputs and channels together as its rows: no transpose of the result,
    # and on a CPU 1.7 times faster than the einsum that it stands for.
    n, c, s, o = outer.B.shape
    rows = jnp.swapaxes(outer.B, 2, 3).reshape(n, c * o, s)
    return outer_sums(rows, outer.A, in_halves=in_halves).reshape(n, c, -1)
