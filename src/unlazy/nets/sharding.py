# SPDX-License-Identifier: Apache-2.0
"""A wide network over several devices: each holds some of the neurons."""

from typing import Any, Protocol, TypeVar, runtime_checkable

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jaxtyping import PyTree

from unlazy.core.entries import entry
from unlazy.core.meshes import along, check_mesh, place
from unlazy.nets.checking import LearnerParams

P = TypeVar("P")

_ARRAYS = (jax.Array, np.ndarray, jax.ShapeDtypeStruct)


@runtime_checkable
class NeuronAxis(Protocol):
    """Says which axis of the parameter at a path, such as `layers/0/weight`, runs over neurons."""

    def __call__(self, path: str, /) -> int | None:
        """The axis; None for a parameter that every device holds whole."""
        ...


@entry
def shard_neurons(params: P, mesh: Mesh, axis: NeuronAxis | int | None = None) -> P:
    """Spread the neurons of a network over the devices of a mesh.

    The parameters keep their values and their structure; each device holds an equal part of the
    neurons. Whatever is computed from them, forward passes, gradients, `train.fit`, `taylor.terms`,
    `kernels.empirical_ntk_traced`, then runs on all of these devices: XLA lets each work on its own
    neurons and adds up what they contribute to the outputs. Results agree with those of one device
    up to rounding. Of the second hidden layer of a `ThreeLayer` each device holds the rows of its
    neurons, and gets the outputs of the first layer from all.

    Args:
        params: parameters of a learner of `unlazy.nets`, or any pytree with `axis`. Shapes from
            `jax.eval_shape` get placements alone, for `jax.jit(init, out_shardings=...)`: a network
            that no single device could hold is then drawn in parts.
        mesh: a `jax.sharding.Mesh`, such as `jax.make_mesh((jax.device_count(),), ("neurons",))`;
            its axes together are the devices, which may be those of several processes.
        axis: which axis of each array runs over neurons: a function of a leaf's path, such as
            `lambda path: 0 if path.startswith("layers/0/") else None`, or one number for all
            arrays. None, in place of it or as its value, stands for the rows of a learner's hidden
            layers and the columns of its output weights, and for arrays held whole by each device
            (so it also puts data on all devices).

    Raises:
        ValueError: an array whose neurons are no multiple of the number of devices, or an `axis`
            that it does not have.

    Example:
        >>> from unlazy.nets import TwoLayer
        >>> mesh = jax.make_mesh((jax.device_count(),), ("neurons",))
        >>> params = TwoLayer(inputs=3, width=8).init(key=jax.random.key(0))
        >>> shard_neurons(params, mesh).W.sharding.spec[0]
        'neurons'
    """
    checked = check_mesh(mesh)
    if checked is None:
        raise TypeError("`mesh` must be a jax.sharding.Mesh, got mesh=None.")
    arrays, rest = eqx.partition(params, lambda leaf: isinstance(leaf, _ARRAYS))
    leaves, structure = jax.tree_util.tree_flatten_with_path(arrays)
    placed = []
    for (path, leaf), found in zip(leaves, _axes(arrays, axis), strict=True):
        _check_axis(_word(path), leaf, found, checked.size)
        from_front = None if found is None else found % leaf.ndim
        placed.append(_placed(leaf, along(checked, from_front)))
    return eqx.combine(jax.tree.unflatten(structure, placed), rest)


def _placed(leaf: Any, sharding: NamedSharding) -> Any:
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)
    return place(leaf, sharding)


def _axes(arrays: PyTree, axis: Any) -> list[Any]:
    """The axis of each array."""
    if axis is None and isinstance(arrays, LearnerParams):
        return [-1 if last else 0 for last in jax.tree.leaves(arrays.is_last())]
    leaves = jax.tree_util.tree_leaves_with_path(arrays)
    return [axis(_word(path)) if callable(axis) else axis for path, _ in leaves]


def _check_axis(path: str, leaf: Any, axis: int | None, devices: int) -> None:
    if axis is None:
        return
    is_number = isinstance(axis, int | np.integer) and not isinstance(axis, bool)
    if not is_number or not -leaf.ndim <= axis < leaf.ndim:
        raise ValueError(
            f"`axis` must be None or the number of an axis of the array at {path}, of shape "
            f"{leaf.shape}, got {axis!r}."
        )
    if leaf.shape[axis] % devices:
        raise ValueError(
            f"`params` must have a multiple of {devices} neurons, the number of devices, got "
            f"{leaf.shape[axis]} along axis {axis} of the array at {path}. Choose another width, "
            "or a mesh of fewer devices."
        )


def _word(path: tuple) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")
