# SPDX-License-Identifier: Apache-2.0
"""A kernel block by block, so that temporary arrays stay within the memory.

The features of a block of rows are computed once and held. Where not all fit, as many blocks as do
are held together (a panel), and the blocks after them are computed again for each panel.
"""

import functools
import math
import time
import warnings
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from unlazy.core.checks import is_known
from unlazy.core.compiling import jit_network
from unlazy.core.errors import UnlazyWarning, user_level
from unlazy.kernels.empirical import contraction
from unlazy.kernels.empirical.features import Blocks, Features, Recipe, features, make_recipe
from unlazy.kernels.empirical.model import Task
from unlazy.linalg.iterative import Progress

# Tiles a side of the symmetric product: with 4, the work is 10/16 of the full one; more cost more
# in compilation than they save. Few rows make one tile.
_TILES = 4
_FEW_ROWS = 64  # of a kernel that an accelerator computes in one program
_LONG = 60.0  # seconds from which on an estimate of the time is given unasked
_FIRST_LOOK = 5.0  # seconds after which the estimate is made


def blockwise(
    task: Task, x1: Array, x2: Array | None, layout: Blocks, progress: Progress | None = None
) -> Array:
    """The kernel from tangent features, computed for at most `layout.rows` rows at a time."""
    n1, n2 = x1.shape[0], (x1 if x2 is None else x2).shape[0]
    if x2 is None and task.is_symmetric:
        parts = _symmetric_parts(task, x1, layout)
    else:
        parts = _cross_parts(task, x1, x1 if x2 is None else x2, layout)
    return assembled(parts, (n1, n2), progress)


class Part(NamedTuple):
    """Some entries of a kernel, and where they belong."""

    start: tuple[int, ...]
    values: Array
    mirrored: bool = False  # whether the entries belong on the other side of the diagonal as well


def recipe_of(task: Task, x: Array | jax.ShapeDtypeStruct) -> Recipe:
    """How the features of these samples are computed."""
    return make_recipe(
        task.model,
        task.trained,
        x,
        layerwise=task.layerwise,
        traced=task.traced,
        entrywise=any(task.signs),
    )


def features_of(task: Task, x: Array, *, signed: bool = False) -> Features:
    """The features of all rows of `x`, compiled; the temporary arrays are gone when they come."""
    return jax.block_until_ready(_features_in_parts(task, x, 1, signed)[0])


@jit_network
def _features_in_parts(task: Task, x: Array, parts: int, signed: bool) -> list[Features]:
    return features(recipe_of(task, x), task.trained, x, task.dtype, parts, signed=signed)


def _at_once(task: Task, x: Array) -> Array:
    """The symmetric kernel of rows that fit the memory."""
    if jax.default_backend() != "cpu" and x.shape[0] <= _FEW_ROWS:
        return _in_one_program(task, x)
    tiles = _features_in_parts(task, x, _TILES, task.signs[0])
    return contraction.symmetric(tiles, traced=task.traced)


@jit_network
def _in_one_program(task: Task, x: Array) -> Array:
    # A program that is started on a device costs up to a millisecond, as much as a small kernel.
    return contraction.symmetric([features_of(task, x, signed=task.signs[0])], traced=task.traced)


def _cross_parts(task: Task, x1: Array, x2: Array, layout: Blocks) -> Iterator[Part]:
    # The smaller set is held: it makes fewer panels, for each of which the other is computed again.
    swapped = x2.shape[0] < x1.shape[0]
    order = -1 if swapped else 1
    (near, near_signed), (far, far_signed) = ((x1, task.signs[0]), (x2, task.signs[1]))[::order]
    (starts_near, size_near), (starts_far, size_far) = (
        starts(x.shape[0], layout.rows) for x in (near, far)
    )
    for panel, _ in _panels(starts_near, layout.held):
        held = [features_of(task, near[i : i + size_near], signed=near_signed) for i in panel]
        for j in starts_far:
            other = features_of(task, far[j : j + size_far], signed=far_signed)
            for i, one in zip(panel, held, strict=True):
                first, second = (one, other)[::order]
                values = contraction.cross(first, second, traced=task.traced)
                yield Part((i, j)[::order], values)


def _symmetric_parts(task: Task, x: Array, layout: Blocks) -> Iterator[Part]:
    traced, signed = task.traced, task.signs[0]
    begins, size = starts(x.shape[0], layout.rows)
    if len(begins) == 1:
        yield Part((0, 0), _at_once(task, x))
        return
    for panel, later in _panels(begins, layout.held):
        held = [features_of(task, x[i : i + size], signed=signed) for i in panel]
        for k, (i, one) in enumerate(zip(panel, held, strict=True)):
            yield Part((i, i), contraction.symmetric([one], traced=traced))
            for j, two in zip(panel[k + 1 :], held[k + 1 :], strict=True):
                yield Part((i, j), contraction.cross(one, two, traced=traced), mirrored=True)
        for j in later:
            two = features_of(task, x[j : j + size], signed=signed)
            for i, one in zip(panel, held, strict=True):
                yield Part((i, j), contraction.cross(one, two, traced=traced), mirrored=True)


def _panels(begins: list[int], held: int) -> Iterator[tuple[list[int], list[int]]]:
    """The blocks that are held together, and those that come after them."""
    for k in range(0, len(begins), held):
        yield begins[k : k + held], begins[k + held :]


def starts(n: int, block: int) -> tuple[list[int], int]:
    """Starts and size of the blocks: the last one overlaps, so that all compile to one program."""
    count = math.ceil(n / max(block, 1))
    size = math.ceil(n / count)
    return [min(k * size, n - size) for k in range(count)], size


def assembled(
    parts: Iterator[Part], shape: tuple[int, ...], progress: Progress | None = None
) -> Array:
    """One array from parts that cover it; `progress` is called with entries done and expected."""
    K, clock, covered = None, _Clock(math.prod(shape), progress), 0
    for start, values, mirrored in parts:
        covered += math.prod(values.shape[: len(shape)]) * (2 if mirrored else 1)
        if values.shape[: len(shape)] == shape:
            clock.tick(covered, values)
            return values
        if K is None:
            K = jnp.zeros((*shape, *values.shape[len(shape) :]), values.dtype)
        K = _put(K, values, start, mirrored)
        clock.tick(covered, values)
    assert K is not None
    return K


@functools.partial(jax.jit, donate_argnums=0, static_argnums=3)
def _put(K: Array, block: Array, start: tuple[int | Array, ...], mirrored: bool) -> Array:
    outputs = (0,) * (K.ndim - len(start))
    K = jax.lax.dynamic_update_slice(K, block, (*start, *outputs))
    if not mirrored:
        return K
    image = contraction.mirror_image(block)
    return jax.lax.dynamic_update_slice(K, image, (*start[::-1], *outputs))


class _Clock:
    """Reports how much is done, and says unasked when a call will be long."""

    def __init__(self, total: int, progress: Progress | None) -> None:
        self.total, self.progress = total, progress
        self.before: Array | None = None
        self.begin: tuple[float, int] | None = None  # after the first part, which was compiled too
        self.is_quiet = progress is not None

    def tick(self, done: int, values: Array) -> None:
        if not is_known(values):
            return
        # One part behind: the device computes the next one meanwhile, and no more wait in line.
        if self.before is not None:
            jax.block_until_ready(self.before)
        self.before = values
        if self.progress is not None:
            if done >= self.total:
                jax.block_until_ready(values)
            self.progress(min(done, self.total), self.total)
        if not self.is_quiet:
            self._warn_if_long(done)

    def _warn_if_long(self, done: int) -> None:
        now = time.perf_counter()
        if self.begin is None:
            self.begin = (now, done)
            return
        elapsed, since = now - self.begin[0], done - self.begin[1]
        if elapsed < _FIRST_LOOK:
            return
        self.is_quiet = True
        left = elapsed * (self.total - done) / since
        if left > _LONG:
            warnings.warn(
                f"The kernel will take about {_words(left)} more: {since} of its {self.total} "
                f"entries took {elapsed:.0f} s. Pass `progress` to follow it; `sum_of_outputs` "
                "takes one gradient per sample.",
                UnlazyWarning,
                stacklevel=user_level(),
            )


def _words(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"
