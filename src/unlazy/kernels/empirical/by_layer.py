# SPDX-License-Identifier: Apache-2.0
"""The tangent kernel of a network layer by layer."""

from collections.abc import Iterator
from typing import Literal

import jax
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from unlazy.core.compiling import jit_network, jit_untuned
from unlazy.core.entries import entry
from unlazy.core.filtering import remembered
from unlazy.core.trained import Trained
from unlazy.kernels.empirical.blockwise import recipe_of, starts
from unlazy.kernels.empirical.contraction import contracted
from unlazy.kernels.empirical.features import Features, Recipe, features_by_leaf
from unlazy.kernels.empirical.model import Apply, Options, Task, check_problem, check_rowwise
from unlazy.kernels.empirical.ntk import survey
from unlazy.linalg.iterative import Progress


@entry
def empirical_ntk_by_layer(
    f: Apply,
    params: PyTree,
    x: Shaped[Array | np.ndarray, "n ..."],
    *,
    trained: Trained = None,
    sum_of_outputs: bool = False,
    sign: Literal["both"] | None = None,
    memory: int | float | None = None,
    progress: Progress | None = None,
) -> dict[str, Float[np.ndarray, "n n"]]:
    r"""The part of the tangent kernel that each layer of a network contributes.

    $$\Theta^{(l)}_{ij} = \sum_a \Big\langle \frac{\partial f_a(x_i)}{\partial\theta_l},
    \frac{\partial f_a(x_j)}{\partial\theta_l} \Big\rangle, \qquad
    \Theta = \sum_l \Theta^{(l)}$$

    summed over the outputs as in `empirical_ntk_traced`, and computed from the same gradients: the
    layers together cost no more than the kernel. A layer is all trained parameters under one name:
    `Dense_0` for `Dense_0/kernel` and `Dense_0/bias`. In a flat dictionary every weight is a layer
    of its own, to which a bias belongs that is added to its products ("W1, b1").

    Source: AR-5, arXiv:1901.08584 eq. (5), split over the parameters.

    Args:
        f: the network, as for `empirical_ntk`.
        params: any pytree.
        x: samples along the first axis.
        trained: which parameters count, as for `nets.partition`; None for all.
        sum_of_outputs: take the kernel of the one output $\sum_a f_a$.
        sign: "both" for $\langle \operatorname{sign} g, \operatorname{sign} g'\rangle$.
        memory: bytes for temporary arrays; None for half of the machine's free memory, or four
            fifths of an accelerator's.
        progress: called as `progress(done, expected)`, with entries of the kernel.

    Returns:
        The kernels by the names of the layers, in the order of the parameters; each symmetric.

    Example:
        >>> import jax.numpy as jnp
        >>> def f(p, x):
        ...     return (x @ p["W"]) @ p["a"]
        >>> params = {"W": 2 * jnp.eye(2), "a": jnp.array([3.0, 4.0])}
        >>> for layer, K in empirical_ntk_by_layer(f, params, jnp.eye(2)).items():
        ...     print(layer, K.tolist())
        W [[25.0, 0.0], [0.0, 25.0]]
        a [[4.0, 0.0], [0.0, 4.0]]
    """
    options = Options(trained, sum_of_outputs, sign, "auto", memory, progress)
    problem = check_problem(f, params, {"x": x}, options, traced=True)
    with problem.precision():
        task, rows = problem.task, problem.samples("x")
        need = survey(task, rows)
        check = check_rowwise(task.model, task.trained, rows)
        n = rows.shape[0]
        size = max(1, need.block(problem.memory(need.whole(n))))
        leaves = leaf_kernels(task, rows, size, problem.progress)
        check()
        places = _places(task, jax.ShapeDtypeStruct(rows.shape, rows.dtype))
    in_order = sorted(zip(places, leaves, strict=True), key=lambda each: each[0])
    return by_name([K for _, K in in_order], [name for (_, name), _ in in_order])


@remembered  # the trace takes longer than a small kernel
def _places(task: Task, x: jax.ShapeDtypeStruct) -> list[tuple[int, str]]:
    """Of each of the features, the number of its leaf and the name of its layer."""
    recipe = recipe_of(task, x)
    return list(zip(recipe.leaves(), layer_names(task, recipe), strict=True))


def layer_names(task: Task, recipe: Recipe) -> list[str]:
    """The layer to which each of the features of `features_by_leaf` belongs."""
    paths = leaf_paths(task.trained)
    biases = {layer.leaf: layer.bias.leaf for layer in recipe.layers if layer.bias is not None}
    names = []
    for leaf in recipe.leaves():
        own = layer_of(paths[leaf])
        bias = layer_of(paths[biases[leaf]]) if leaf in biases else own
        names.append(own if bias == own else f"{own}, {bias}")
    return names


def leaf_paths(params: PyTree) -> list[str]:
    """The paths of all leaves, such as `layers/0/weight`."""
    leaves = jax.tree_util.tree_leaves_with_path(params)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in leaves]


def layer_of(path: str) -> str:
    """The layer to which the parameter at a path belongs."""
    parts = path.removesuffix("/value").split("/")  # the variables of Flax nnx
    return "/".join(parts[:-1]) or parts[-1]


def by_name(leaves: list[np.ndarray], names: list[str]) -> dict[str, np.ndarray]:
    """The kernels of the leaves, summed over those of one layer."""
    kernels: dict[str, np.ndarray] = {}
    for name, K in zip(names, leaves, strict=True):
        kernels[name] = kernels[name] + K if name in kernels else K
    return kernels


def leaf_kernels(
    task: Task, x: Array, size: int, progress: Progress | None
) -> list[Float[np.ndarray, "n n"]]:
    """The kernel of each leaf, with features of at most `size` rows at a time."""
    n = x.shape[0]
    begins, size = starts(n, size)
    found: list[np.ndarray] = []
    for done, (i, j, tiles) in enumerate(_tiles(task, x, begins, size), start=1):
        if not found:
            found = [np.zeros((n, n), tile.dtype) for tile in tiles]
        for K, tile in zip(found, jax.device_get(tiles), strict=True):
            K[i : i + size, j : j + size] = (tile + tile.T) / 2 if i == j else tile
            K[j : j + size, i : i + size] = K[i : i + size, j : j + size].T
        if progress is not None:
            progress(n * n * done // (len(begins) * (len(begins) + 1) // 2), n * n)
    return found


def _tiles(
    task: Task, x: Array, begins: list[int], size: int
) -> Iterator[tuple[int, int, list[Array]]]:
    for k, i in enumerate(begins):
        one = _features(task, x[i : i + size])
        for j in begins[k:]:
            two = one if j == i else _features(task, x[j : j + size])
            yield i, j, _products(one, two)


@jit_network
def _features(task: Task, x: Array) -> list[Features]:
    return features_by_leaf(recipe_of(task, x), task.trained, x, task.dtype, signed=task.signs[0])


@jit_untuned
def _products(one: list[Features], two: list[Features]) -> list[Array]:
    return [contracted(*pair, traced=True) for pair in zip(one, two, strict=True)]
