# SPDX-License-Identifier: Apache-2.0
"""The conjugate kernel of a network of finite width: inner products of what a layer takes in."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree, Shaped

from unlazy.core.compiling import jit_network
from unlazy.core.entries import entry
from unlazy.core.jaxprs import Program, trace
from unlazy.core.trained import PathFilter
from unlazy.kernels.empirical.layers import Layer, find_layers, used_after
from unlazy.kernels.empirical.model import (
    Apply,
    Options,
    Task,
    check_outputs,
    check_problem,
    check_rowwise,
)

_ROWS = 1024  # samples that go through the network at a time


@entry
def empirical_conjugate(
    f: Apply,
    params: PyTree,
    x1: Shaped[Array | np.ndarray, "n1 ..."],
    x2: Shaped[Array | np.ndarray, "n2 ..."] | None = None,
    *,
    layer: str | PathFilter | None = None,
) -> Float[Array, "n1 n2"]:
    r"""The kernel of a network's features at a layer, at its present parameters.

    $$K_{ij} = \sum_s \langle h_s(x_i), h_s(x_j) \rangle$$

    with $h_s$ what the weight of the layer is multiplied with: the activations of the layer before
    it, at every position s where there are several (pixels of a convolution, tokens). These are
    the activations themselves and not the patches that a convolution cuts out of them. Factors
    outside of the product, such as $1/\sqrt m$ beside the weight, are left out.

    For a last layer $f = h W$ it is the tangent kernel of W alone, for one output:
    `empirical_ntk_traced(f, params, x, trained=lambda path: path == "...")`. In the limit of wide
    networks it tends to m times `nngp` of the layers before.

    Layers are found by tracing `f`: every weight that enters the network in matrix products or
    convolutions alone, several times perhaps (the sum over s then runs over all of them). Symmetric
    to the last bit when `x2` is None; precision as for `empirical_ntk`. The features of all samples
    are held at a time.

    Source: the conjugate kernel of arXiv:1602.05897, at finite width.

    Args:
        f: the network, as for `empirical_ntk`.
        params: any pytree.
        x1: samples along the first axis.
        x2: other samples, for the cross kernel; None means `x1`.
        layer: the weight whose inputs are the features: its path in `params`, such as
            `params/Dense_2/kernel`, or the end of the path where that is unique
            (`Dense_2/kernel`), or a function that is true of its path alone. None for the last
            layer, whose inputs are the features of the last hidden layer.

    Raises:
        ValueError: there is no such layer, or more than one: the message lists those that were
            found. Or the last one was asked for and parameters are used after it in a way that is
            not understood.

    Example:
        >>> def f(p, x):
        ...     return jax.nn.relu(x @ p["W"]) @ p["v"]
        >>> params = {"W": 3 * jnp.eye(2), "v": jnp.ones(2)}
        >>> print(empirical_conjugate(f, params, jnp.eye(2)))
        [[9. 0.]
         [0. 9.]]
        >>> print(empirical_conjugate(f, params, jnp.eye(2), layer="W"))
        [[1. 0.]
         [0. 1.]]
    """
    inputs = {"x1": x1} if x2 is None else {"x1": x1, "x2": x2}
    problem = check_problem(f, params, inputs, Options(), traced=True)
    with problem.precision():
        task, rows1 = problem.task, problem.samples("x1")
        rows2 = None if x2 is None else problem.samples("x2")
        check_outputs(task.model, task.trained, jax.ShapeDtypeStruct(rows1.shape, rows1.dtype))
        check = check_rowwise(task.model, task.trained, rows1, rows2)
        path = _chosen_path(task, rows1, layer)
        one = layer_inputs(task, rows1, path)
        K = _gram(one, one if rows2 is None else layer_inputs(task, rows2, path))
        check()
        return (K + K.T) / 2 if rows2 is None else K


class Found(NamedTuple):
    """The program of a network at one sample, and its layers by the paths of their weights."""

    program: Program
    layers: dict[str, list[Layer]]  # in the order in which they are used
    names: list[str]  # of all parameters


def find(task: Task, x: Array) -> Found:
    """Trace a network at one sample and find its layers."""
    leaves, structure = jax.tree.flatten(task.trained)
    with_paths = jax.tree_util.tree_leaves_with_path(task.trained)
    names = [jax.tree_util.keystr(path, simple=True, separator="/") for path, _ in with_paths]

    def sample(leaves: list[Array], x: Array) -> Array:
        return task.model(jax.tree.unflatten(structure, leaves), x)

    program = trace(sample, leaves, jax.ShapeDtypeStruct(x.shape[1:], x.dtype))
    layers: dict[str, list[Layer]] = {}
    for layer in sorted(find_layers(program, len(leaves)), key=lambda layer: layer.step):
        layers.setdefault(names[layer.leaf], []).append(layer)
    return Found(program, layers, names)


def last_layer(task: Task, x: Array) -> str:
    """The path of the weight of the last layer."""
    return _chosen_path(task, x, None)


def _chosen_path(task: Task, x: Array, wanted: Any) -> str:
    found = find(task, x)
    known = f"Layers: {', '.join(found.layers) or 'none'}."
    if wanted is None:
        return _last(found, known)
    if not isinstance(wanted, str) and not callable(wanted):
        raise ValueError(
            "`layer` must be None, the path of a weight or a function of a path, got "
            f"layer={wanted!r}. {known}"
        )
    if isinstance(wanted, str):
        chosen = [path for path in found.layers if path == wanted]
        chosen = chosen or [path for path in found.layers if path.endswith(f"/{wanted}")]
    else:
        chosen = [path for path in found.layers if wanted(path)]
    if len(chosen) == 1:
        return chosen[0]
    what = f"which fits {', '.join(chosen)}" if chosen else "which fits none"
    raise ValueError(
        f"`layer` must fit the path of one weight of `params` that is used in matrix products or "
        f"convolutions alone, got layer={wanted!r}, {what}. {known}"
    )


def _last(found: Found, known: str) -> str:
    if not found.layers:
        raise ValueError(
            "`f` must have a weight that enters it in matrix products or convolutions alone for "
            "its layers to be found, got none. In a loop they are not found: unroll it."
        )
    last = max(found.layers, key=lambda path: found.layers[path][-1].step)
    later = used_after(found.program, len(found.names), found.layers[last][-1].step)
    if later:
        names = ", ".join(found.names[k] for k in sorted(later))
        raise ValueError(
            f"`layer` must be given for this network, got layer=None: after {last}, the last layer "
            f"that was found, the network uses {names} in another way. {known}"
        )
    return last


def layer_inputs(task: Task, x: Array, path: str) -> Float[Array, "n k"]:
    """What the weight at a path is multiplied with, at every sample."""
    parts = [_features_of(task, x[i : i + _ROWS], path) for i in range(0, x.shape[0], _ROWS)]
    return jnp.concatenate(parts)


@jit_network
def _features_of(task: Task, x: Array, path: str) -> Float[Array, "n k"]:
    program, layers, _ = find(task, x)
    leaves = jax.tree.leaves(task.trained)

    def of(row: Array) -> Float[Array, " k"]:
        values = program.run([*leaves, row])
        taken = [layer.activations(program.steps[layer.step], values) for layer in layers[path]]
        return jnp.concatenate([h.reshape(-1) for h in taken]).astype(task.dtype)

    return jax.vmap(of)(x)


@jax.jit
def _gram(one: Float[Array, "n1 k"], two: Float[Array, "n2 k"]) -> Float[Array, "n1 n2"]:
    return jnp.matmul(one, two.T, precision=jax.lax.Precision.HIGHEST)
