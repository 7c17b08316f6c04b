# SPDX-License-Identifier: Apache-2.0
"""The tangent kernel of a network of finite width.

The arguments are checked (`model`), the network is traced and its layers are found (`layers`). Then
block by block of the samples, so that temporary arrays stay within the memory, the gradients of the
outputs are computed as factors (`features`), and the factors are contracted (`contraction`).
"""

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from unlazy.core.checks import is_known
from unlazy.core.compiling import jit_untuned
from unlazy.core.entries import entry
from unlazy.core.trained import Trained
from unlazy.kernels.empirical import contraction
from unlazy.kernels.empirical.features import Blocks, Cost, Features, cost, features, make_recipe
from unlazy.kernels.empirical.model import (
    Apply,
    Implementation,
    Task,
    check_outputs,
    check_problem,
    check_rowwise,
)

# Tiles a side of the symmetric product: with 4, the work is 10/16 of the full one; more cost more
# in compilation than they save. Elsewhere one: an accelerator's compiler tunes each product of each
# tile, and kernels that compute for milliseconds were seen to take twenty seconds.
_TILES = {"cpu": 4}


@entry
def empirical_ntk(
    f: Apply,
    params: PyTree,
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    trained: Trained = None,
    implementation: Implementation = "auto",
    memory: int | float = 2**30,
) -> Float[Array, "n1 n2 c c"]:
    r"""The tangent kernel of any network at its present parameters.

    $$\Theta_{ijab} = \sum_p \frac{\partial f_a(x_i)}{\partial\theta_p}
    \frac{\partial f_b(x_j)}{\partial\theta_p}$$

    Where a weight enters the network through one matrix product or convolution, no Jacobian is
    formed: with $A_l$ the layer's inputs and $B_l$ the gradients of the outputs with respect to its
    pre-activations,

    $$\Theta = \sum_l (A_l A_l^\top) \circ (B_l B_l^\top).$$

    Such weights are found by tracing `f`; one that multiplies several inputs along the same axes
    has a row of $A_l$ and $B_l$ for each, to be summed over. Every other parameter (in a scan, in a
    normalisation) is differentiated, with the same result to rounding. For a two-layer network this
    is $H = K \circ (A A^\top)/m$ with $A_{ir} = a_r \sigma'(w_r^\top x_i)$.

    Symmetric to the last bit when `x2` is None. Computed in the dtype of the trained parameters,
    products in full precision (never TF32 on a GPU) inside `f` as well; float64 parameters give a
    float64 kernel whatever JAX's global setting is, half precision gives float32.

    Source: AR-5 and AR-43 for two layers, arXiv:1901.08584 eq. (5); RN-18 for residual networks,
    arXiv:1905.10337; the sum over layers is derived from the chain rule.

    Args:
        f: the network: `f(params, x)` of shape (n,) or (n, c), each row computed by itself. An
            Equinox model: `lambda model, x: jax.vmap(model)(x)`; a Flax linen model: `model.apply`;
            Flax nnx: `lambda state, x: nnx.merge(graphdef, state)(x)`.
        params: any pytree; what is not an array of floats is kept fixed.
        x1: samples along the first axis.
        x2: other samples, for the cross kernel; None means `x1`.
        trained: which parameters count, as for `nets.partition`; None for all. With "last",
            output weights that are also used inside the network count in the output layer only.
        implementation: "layerwise" as above; "jacobian", which differentiates every parameter;
            "ntk-vector", one forward derivative per column, slow and small; "auto" chooses
            "layerwise", or "ntk-vector" where the gradients of two samples exceed `memory`.
        memory: bytes for temporary arrays, beside the kernel itself; an estimate, not a promise.

    Returns:
        The kernel, with c = 1 for a network of one output.

    Example:
        >>> import equinox as eqx
        >>> model = eqx.nn.MLP(2, 3, width_size=8, depth=2, key=jax.random.key(0))
        >>> K = empirical_ntk(lambda model, x: jax.vmap(model)(x), model, jnp.eye(2))
        >>> K.shape
        (2, 2, 3, 3)
    """
    return _kernel(f, params, x1, x2, trained, implementation, memory, traced=False)


@entry
def empirical_ntk_traced(
    f: Apply,
    params: PyTree,
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    trained: Trained = None,
    implementation: Implementation = "auto",
    memory: int | float = 2**30,
) -> Float[Array, "n1 n2"]:
    r"""The tangent kernel summed (not averaged) over the outputs.

    $$\Theta_{ij} = \sum_a \Theta_{ijaa}$$

    without the full kernel in between. Arguments and precision as for `empirical_ntk`.

    Source: AR-5, arXiv:1901.08584 eq. (5), where there is one output.

    Example:
        >>> K = empirical_ntk_traced(lambda w, x: x @ w, jnp.ones((2, 3)), 2 * jnp.eye(2))
        >>> print(K)
        [[12.  0.]
         [ 0. 12.]]
    """
    return _kernel(f, params, x1, x2, trained, implementation, memory, traced=True)


@entry
def empirical_ntk_diagonal(
    f: Apply,
    params: PyTree,
    x: Shaped[Array | np.ndarray, "n ..."],
    *,
    trained: Trained = None,
    implementation: Implementation = "auto",
    memory: int | float = 2**30,
) -> Float[Array, "n c c"]:
    r"""The tangent kernel of each sample with itself, $\Theta_{iiab}$, at linear cost in n.

    Arguments and precision as for `empirical_ntk`.

    Example:
        >>> K = empirical_ntk_diagonal(lambda w, x: x @ w, jnp.ones(2), jnp.array([[3.0, 4.0]]))
        >>> print(K)
        [[[25.]]]
    """
    problem = check_problem(f, params, {"x": x}, trained, implementation, memory, traced=False)
    with problem.precision():
        task, rows = problem.task, problem.samples("x")
        need = _survey(task, rows)
        check_rowwise(task.model, task.trained, _some_rows(rows))
        block = int(memory / (need.row + need.pair))
        if problem.uses_products(block):
            return contraction.diagonal_from_products(task, rows)
        starts, size = _starts(rows.shape[0], block)
        parts = (
            _Part((i,), contraction.diagonal(_features(task, rows[i : i + size]))) for i in starts
        )
        return _assembled(parts, (rows.shape[0],))


def _kernel(f, params, x1, x2, trained, implementation, memory, *, traced: bool) -> Array:
    inputs = {"x1": x1} if x2 is None else {"x1": x1, "x2": x2}
    problem = check_problem(f, params, inputs, trained, implementation, memory, traced=traced)
    with problem.precision():
        task, rows1 = problem.task, problem.samples("x1")
        rows2 = None if x2 is None else problem.samples("x2")
        need = _survey(task, rows1)
        check_rowwise(task.model, task.trained, _some_rows(rows1, rows2))
        if problem.uses_products(need.block(memory)):
            return contraction.from_products(task, rows1, rows2)
        most = max(rows1.shape[0], 0 if rows2 is None else rows2.shape[0])
        return blockwise(task, rows1, rows2, need.blocks(most, memory))


def _survey(task: Task, x: Array) -> Cost:
    """Check what `f` returns, and estimate the memory for a row and for a pair of rows."""
    known = all(is_known(leaf) for leaf in (x, *jax.tree.leaves(task.trained)))
    # The trace takes far longer than small kernels do: the compiled function keeps its outcome.
    return (_survey_once if known else _survey_now)(task, x[:1])


def _survey_now(task: Task, x: Array) -> Cost:
    check_outputs(task.model, task.trained, x)
    return cost(_recipe(task, x), task.trained, x, task.dtype)


_survey_once = eqx.filter_jit(_survey_now)


def _recipe(task: Task, x: Array):
    return make_recipe(task.model, task.trained, x, layerwise=task.layerwise, traced=task.traced)


def _features(task: Task, x: Array) -> Features:
    return _features_in_parts(task, x, 1)[0]


@jit_untuned
def _features_in_parts(task: Task, x: Array, parts: int) -> list[Features]:
    return features(_recipe(task, x), task.trained, x, task.dtype, parts)


def blockwise(task: Task, x1: Array, x2: Array | None, layout: Blocks) -> Array:
    """The kernel from tangent features, computed for at most `layout.rows` rows at a time."""
    if x2 is None:
        return _assembled(_symmetric_parts(task, x1, layout), (x1.shape[0], x1.shape[0]))
    return _assembled(_cross_parts(task, x1, x2, layout), (x1.shape[0], x2.shape[0]))


class _Part(NamedTuple):
    start: tuple[int, ...]
    values: Array


def _cross_parts(task: Task, x1: Array, x2: Array, layout: Blocks) -> Iterator[_Part]:
    # The smaller set is held: it makes fewer panels, for each of which the other is computed again.
    swapped = x2.shape[0] < x1.shape[0]
    near, far = (x2, x1) if swapped else (x1, x2)
    (starts_near, size_near), (starts_far, size_far) = (
        _starts(x.shape[0], layout.rows) for x in (near, far)
    )
    for panel, _ in _panels(starts_near, layout.held):
        held = [_features(task, near[i : i + size_near]) for i in panel]
        for j in starts_far:
            other = _features(task, far[j : j + size_far])
            for i, one in zip(panel, held, strict=True):
                first, second = (other, one) if swapped else (one, other)
                start = (j, i) if swapped else (i, j)
                yield _Part(start, contraction.cross(first, second, traced=task.traced))


def _symmetric_parts(task: Task, x: Array, layout: Blocks) -> Iterator[_Part]:
    traced = task.traced
    starts, size = _starts(x.shape[0], layout.rows)
    if len(starts) == 1:
        tiles = _features_in_parts(task, x, _TILES.get(jax.default_backend(), 1))
        yield _Part((0, 0), contraction.symmetric(tiles, traced=traced))
        return
    for panel, later in _panels(starts, layout.held):
        held = [_features(task, x[i : i + size]) for i in panel]
        for k, (i, one) in enumerate(zip(panel, held, strict=True)):
            yield _Part((i, i), contraction.symmetric([one], traced=traced))
            for j, two in zip(panel[k + 1 :], held[k + 1 :], strict=True):
                yield from _both_sides((i, j), contraction.cross(one, two, traced=traced))
        for j in later:
            two = _features(task, x[j : j + size])
            for i, one in zip(panel, held, strict=True):
                yield from _both_sides((i, j), contraction.cross(one, two, traced=traced))


def _both_sides(start: tuple[int, int], values: Array) -> Iterator[_Part]:
    yield _Part(start, values)
    yield _Part(start[::-1], contraction.mirror_image(values))


def _panels(starts: list[int], held: int) -> Iterator[tuple[list[int], list[int]]]:
    """The blocks that are held together, and those that come after them."""
    for k in range(0, len(starts), held):
        yield starts[k : k + held], starts[k + held :]


def _starts(n: int, block: int) -> tuple[list[int], int]:
    """Starts and size of the blocks: the last one overlaps, so that all compile to one program."""
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


@functools.partial(jax.jit, donate_argnums=0)
def _put(K: Array, block: Array, start: tuple[Array, ...]) -> Array:
    return jax.lax.dynamic_update_slice(K, block, start)


def _some_rows(x1: Array, x2: Array | None = None) -> Array:
    """A few samples, spread over the rows."""
    first = x1[: x1.shape[0] : max(x1.shape[0] // 3, 1)][:4]
    return first if x2 is None else jnp.concatenate([first, x2[-1:].astype(x1.dtype)])
