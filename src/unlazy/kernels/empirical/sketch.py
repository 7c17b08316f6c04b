# SPDX-License-Identifier: Apache-2.0
"""Random projections of a network's gradients: short features whose inner products are the kernel.

Gradients of a block of samples are computed as factors, and multiplied by random signs that are
drawn when they are needed: 32 directions and a part of the parameters at a time.

The other way, a derivative along each direction, needs no gradients but takes a pass over the
network per direction. For a weight of p entries at P positions that is about 4pP operations,
against 2p for a direction of a gradient that is at hand, or of its two factors for all outputs at
once. For 256 directions at 128 samples, two cores took 26 and 11 times as long that way for a CNN
of 1 and 10 outputs, and 2.7 and 2.3 times as long for an MLP: it is not offered.
"""

import functools
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree, Shaped

from unlazy.core.checks import check_count, check_key
from unlazy.core.compiling import jit_network
from unlazy.core.entries import entry
from unlazy.core.trained import Trained
from unlazy.kernels.empirical.blockwise import Part, assembled, features_of, recipe_of, starts
from unlazy.kernels.empirical.features import Outer, cost
from unlazy.kernels.empirical.model import (
    Apply,
    Options,
    Task,
    check_outputs,
    check_problem,
    check_rowwise,
)
from unlazy.linalg.iterative import Progress

_HIGHEST = jax.lax.Precision.HIGHEST
_GROUP = 32  # directions at a time: the bits of one random word
_WORDS = 2**20  # entries of a gradient at a time


@entry
def gradient_sketch(
    f: Apply,
    params: PyTree,
    x: Shaped[Array | np.ndarray, "n ..."],
    dimension: int,
    *,
    trained: Trained = None,
    sum_of_outputs: bool = False,
    memory: int | float | None = None,
    progress: Progress | None = None,
    key: PRNGKeyArray,
) -> Float[Array, "n c k"]:
    r"""Random projections of the gradients, whose inner products estimate the tangent kernel.

    $$Z_{iak} = \frac{1}{\sqrt D} \sum_p \frac{\partial f_a(x_i)}{\partial\theta_p} R_{pk}, \qquad
    \mathbb E \sum_k Z_{iak} Z_{jbk} = \Theta_{ijab}$$

    with D = `dimension` and independent random signs $R_{pk} = \pm 1$. The estimate of an entry has
    the variance

    $$\frac1D \Big( \Theta_{iiaa} \Theta_{jjbb} + \Theta_{ijab}^2 - 2 \sum_p g_p^2 h_p^2 \Big),$$

    with g and h the two gradients: a standard deviation of at most
    $\sqrt{2/D}\, \sqrt{\Theta_{iiaa} \Theta_{jjbb}}$. The signs depend on `key`, the network, the
    shape of a sample and `trained` alone: one key gives the features of training and test samples
    in the same directions, `Z_test` with `Z_train` a cross kernel, and the first directions of a
    larger dimension are those of a smaller one (times a factor).

    Features of this kind are what influence methods such as TRAK store for each sample. The cost is
    that of the gradients and 2 D operations per entry of a gradient; the signs are never stored.

    Source: derived: a Johnson-Lindenstrauss projection with signs (Achlioptas 2003); for influence,
    arXiv:2303.14186.

    Args:
        f: the network, as for `empirical_ntk`.
        params: any pytree.
        x: samples along the first axis.
        dimension: how many directions.
        trained: which parameters count, as for `empirical_ntk`.
        sum_of_outputs: take the gradient of the one output $\sum_a f_a$. For the gradient of a loss
            or of a margin, let `f` return it.
        memory: bytes for temporary arrays, as for `empirical_ntk`; no result depends on it, but for
            rounding.
        progress: called as `progress(done, expected)`, with samples.
        key: of the signs.

    Returns:
        The features, with c = 1 for a network of one output, in the dtype of the kernel.

    Raises:
        ValueError: as for `empirical_ntk`.

    Example:
        >>> def f(w, x):
        ...     return x @ w
        >>> x = jnp.array([[3.0, 4.0]])
        >>> Z = gradient_sketch(f, jnp.ones(2), x, 4096, key=jax.random.key(0))
        >>> Z.shape, round(float(jnp.sum(Z**2)))  # 25, give or take 0.5
        ((1, 1, 4096), 25)
    """
    check_count(dimension, "dimension")
    check_key(key)
    options = Options(trained, sum_of_outputs, None, "auto", memory, progress)
    problem = check_problem(f, params, {"x": x}, options, traced=False)
    # Gradients entry by entry, or as a product of two vectors; never as a sum of products.
    task = problem.task._replace(signs=(True, True))
    with problem.precision():
        rows = problem.samples("x")
        row = _row_memory(task, jax.ShapeDtypeStruct(rows.shape, rows.dtype), int(dimension))
        check = check_rowwise(task.model, task.trained, rows)
        block = int(problem.memory(row * rows.shape[0]) / row)
        begins, size = starts(rows.shape[0], block)
        parts = (
            Part((i,), _projected(task, rows[i : i + size], int(dimension), key)) for i in begins
        )
        Z = assembled(parts, (rows.shape[0],), progress)
        check()
        return Z


@eqx.filter_jit  # keeps the outcome of the trace, which takes far longer than a small sketch
def _row_memory(task: Task, x: jax.ShapeDtypeStruct, dimension: int) -> int:
    """Check what `f` returns, and estimate the bytes for the sketch of one sample."""
    check_outputs(task.model, task.trained, x)
    need = cost(recipe_of(task, x), task.trained, x, task.dtype)
    row = jax.ShapeDtypeStruct((1, *x.shape[1:]), x.dtype)
    outputs = jax.eval_shape(task.model.batch, task.trained, row).shape[1]
    # Beside the gradients, their products with the signs of a group: about as large.
    return 2 * need.row + task.dtype.itemsize * outputs * dimension


@jit_network
def _projected(
    task: Task, x: Array, dimension: int, key: PRNGKeyArray
) -> Float[Array, "n c dimension"]:
    found = features_of(task, x)
    pieces: list[tuple[Any, Any]] = [(_flat_times_signs, g) for g in found.flat]
    pieces += [(_outer_times_signs, outer) for outer in found.outer]

    def along(group: Array) -> Float[Array, "n c 32"]:
        keys = [jr.fold_in(jr.fold_in(key, group), k) for k in range(len(pieces))]
        terms = [times(piece, key) for (times, piece), key in zip(pieces, keys, strict=True)]
        return functools.reduce(jnp.add, terms)

    groups = jax.lax.map(along, jnp.arange(math.ceil(dimension / _GROUP)))  # (groups, n, c, 32)
    Z = jnp.moveaxis(groups, 0, 2)
    return Z.reshape(*Z.shape[:2], -1)[..., :dimension] / math.sqrt(dimension)


def _signs(key: PRNGKeyArray, part: Array | int, count: int, dtype: Any) -> Float[Array, "count e"]:
    words = jr.bits(jr.fold_in(key, part), (count, 1), jnp.uint32)
    bits = (words >> jnp.arange(_GROUP, dtype=jnp.uint32)[None, :]) & jnp.uint32(1)
    return 1 - 2 * bits.astype(dtype)


def _flat_times_signs(G: Float[Array, "n c p"], key: PRNGKeyArray) -> Float[Array, "n c e"]:
    n, c, p = G.shape

    def times(some: Float[Array, "r w"], part: Array | int) -> Float[Array, "r e"]:
        return jnp.matmul(some, _signs(key, part, some.shape[1], G.dtype), precision=_HIGHEST)

    total = _sum_over_parts(times, G.reshape(n * c, p), _WORDS)
    return total.reshape(n, c, _GROUP)


def _outer_times_signs(outer: Outer, key: PRNGKeyArray) -> Float[Array, "n c e"]:
    A, B = outer.A[:, 0], outer.B[:, :, 0]
    (n, _), o = A.shape, B.shape[2]

    def times(some: Float[Array, "n w"], part: Array | int) -> Float[Array, "n oe"]:
        width = some.shape[1]
        R = _signs(key, part, width * o, A.dtype).reshape(width, o * _GROUP)
        return jnp.matmul(some, R, precision=_HIGHEST)

    inner = _sum_over_parts(times, A, max(1, _WORDS // o)).reshape(n, o, _GROUP)
    return jnp.matmul(B, inner, precision=_HIGHEST)


def _sum_over_parts(times: Any, G: Float[Array, "r p"], width: int) -> Array:
    """The sum of `times(part of the columns, its number)`: one program for all parts."""
    count = math.ceil(G.shape[1] / width)
    if count == 1:
        return times(G, 0)
    padded = jnp.pad(G, ((0, 0), (0, count * width - G.shape[1])))

    def step(k: Array, total: Array) -> Array:
        return total + times(jax.lax.dynamic_slice_in_dim(padded, k * width, width, axis=1), k)

    start = jnp.zeros(jax.eval_shape(times, padded[:, :width], 0).shape, G.dtype)
    return jax.lax.fori_loop(0, count, step, start)
