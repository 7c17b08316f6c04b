# SPDX-License-Identifier: Apache-2.0
"""What each leaf of a model is: a parameter, a running statistic, a setting.

Batch normalisation keeps running means and variances beside its weights. Averages set them, and no
gradient does, so that a derivative with respect to them belongs to no kernel and to no expansion.
Flax is recognised by the names of its classes: it need not be installed.
"""

import enum
import re
from collections.abc import Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree


class Role(enum.Enum):
    """What a leaf is."""

    PARAMETER = "parameter"  # floats that gradients train
    AUXILIARY = "auxiliary"  # floats beside the parameters, frozen unless asked for
    STATISTIC = "statistic"  # floats that averages set
    FIXED = "fixed"  # integers, keys, functions, and numbers that are settings


# Of batch normalisation in Flax and in PyTorch, also within flat names such as bn1.running_mean.
_STATISTICS = re.compile(r"\b(batch_stats|running_mean|running_var|num_batches_tracked)\b")


def roles(params: PyTree) -> PyTree:
    """The `Role` of every leaf of a model, in the structure of `params`.

    Statistics are what Flax's Linen keeps under "batch_stats", variables of the type
    `nnx.BatchStat`, the `eqx.nn.State` of an Equinox model, and PyTorch's `running_mean` and
    `running_var`. Auxiliary are the other collections of a Linen model beside "params", and the
    `nnx.Variable`s that are no `nnx.Param`. Python's numbers in an Equinox module are settings,
    such as a dropout rate or the start of a maximum.
    """
    return _of_node(params, Role.PARAMETER, in_module=False)


def _of_node(node: Any, role: Role, *, in_module: bool) -> PyTree:
    """The roles within a node, where floats of which no more is known have `role`."""
    if isinstance(node, eqx.nn.State | eqx.nn.StateIndex):
        return _everywhere(node, Role.STATISTIC)
    if _is_nnx_variable(node):
        return _everywhere(node, _of_nnx_variable(node))
    if _is_linen(node):
        return _of_linen(node, role, in_module=in_module)
    return _below(node, role, in_module=in_module or isinstance(node, eqx.Module))


def _below(tree: PyTree, role: Role, *, in_module: bool) -> PyTree:
    def of(path: tuple, node: Any) -> PyTree:
        if _STATISTICS.search(jax.tree_util.keystr(path)):
            return _everywhere(node, Role.STATISTIC)
        if _is_special(node):
            return _of_node(node, role, in_module=in_module)
        return role if is_float(node, in_module=in_module) else Role.FIXED

    return jax.tree_util.tree_map_with_path(
        of, tree, is_leaf=lambda node: node is not tree and _is_special(node)
    )


def _of_linen(variables: Mapping, role: Role, *, in_module: bool) -> PyTree:
    """The roles in {"params": ..., "batch_stats": ...}, of which only "params" are trained."""
    collections, structure = jax.tree_util.tree_flatten_with_path(
        variables, is_leaf=lambda node: node is not variables
    )
    found = []
    for (key,), collection in collections:
        of_floats = role if key.key == "params" else Role.AUXILIARY
        if _STATISTICS.search(str(key)):
            of_floats = Role.STATISTIC
        found.append(_of_node(collection, of_floats, in_module=in_module))
    return structure.unflatten(found)


def _everywhere(node: Any, role: Role) -> PyTree:
    return jax.tree.map(lambda leaf: role if is_float(leaf, in_module=True) else Role.FIXED, node)


def _is_special(node: Any) -> bool:
    return isinstance(node, eqx.nn.State | eqx.Module) or _is_nnx_variable(node) or _is_linen(node)


def _is_linen(node: Any) -> bool:
    """Whether this holds the collections of a Linen model: mappings, "params" among others."""
    return (
        isinstance(node, Mapping)
        and "params" in node
        and len(node) > 1
        and all(isinstance(collection, Mapping) for collection in node.values())
    )


def _is_nnx_variable(node: Any) -> bool:
    return "Variable" in _nnx_classes(node)


def _of_nnx_variable(node: Any) -> Role:
    classes = _nnx_classes(node)
    if "BatchStat" in classes:
        return Role.STATISTIC
    return Role.PARAMETER if "Param" in classes else Role.AUXILIARY


def _nnx_classes(node: Any) -> list[str]:
    return [one.__name__ for one in type(node).__mro__ if one.__module__.startswith("flax.nnx")]


def is_float(leaf: Any, *, in_module: bool) -> bool:
    """Whether a leaf is an array of floats, or a float where numbers are no settings."""
    if isinstance(leaf, Array | np.ndarray | np.generic):
        return jnp.issubdtype(leaf.dtype, jnp.inexact)
    return isinstance(leaf, float | complex) and not in_module
