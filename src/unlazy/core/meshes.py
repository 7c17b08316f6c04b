# SPDX-License-Identifier: Apache-2.0
"""Arrays on the devices of a mesh, of one process or of many.

All axes of a mesh together count as one list of devices. Every process makes the same calls with
the same values, as JAX asks of programs that run on several hosts.
"""

from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from unlazy.core.machine import default_memory

T = TypeVar("T")


def check_mesh(mesh: Mesh | None, name: str = "mesh") -> Mesh | None:
    """The mesh with axes along which XLA may place arrays as it likes; None if there is none.

    `jax.make_mesh` makes axes whose arrays keep their placement as a part of their type. Programs
    of users, written for one device, would then have to say how each product is placed.
    """
    if mesh is None:
        return None
    if not isinstance(mesh, Mesh):
        raise TypeError(
            f"`{name}` must be a jax.sharding.Mesh or None, got a {type(mesh).__name__}. "
            'Make one by jax.make_mesh((jax.device_count(),), ("devices",)).'
        )
    if not mesh.size or not mesh.local_devices:
        raise ValueError(
            f"`{name}` must have a device of this process, got {name}={mesh}. Take it over "
            "jax.devices(), which lists the devices of all processes."
        )
    return Mesh(mesh.devices, mesh.axis_names, axis_types=(AxisType.Auto,) * len(mesh.axis_names))


def along(mesh: Mesh, axis: int | None) -> NamedSharding:
    """The placement that cuts an axis over all devices; None for a copy on each device."""
    parts = [] if axis is None else [None] * axis + [mesh.axis_names]
    return NamedSharding(mesh, PartitionSpec(*parts))


def place(tree: T, sharding: NamedSharding) -> T:
    """The arrays of a tree, the same in every process, on the devices of the mesh."""
    return jax.tree.map(lambda leaf: _placed(leaf, sharding), tree)


def _placed(leaf: Any, sharding: NamedSharding) -> Any:
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        # JAX has no such transfer of keys to the devices of other processes.
        data = jax.device_put(jr.key_data(leaf), sharding)
        return jr.wrap_key_data(data, impl=jr.key_impl(leaf))
    return jax.device_put(leaf, sharding)


def to_host(tree: Any) -> Any:
    """The arrays of a tree whole, as NumPy arrays, in every process."""
    return jax.tree.map(_whole, tree)


def _whole(leaf: Any) -> Any:
    if isinstance(leaf, jax.Array) and not (leaf.is_fully_addressable or leaf.is_fully_replicated):
        return multihost_utils.process_allgather(leaf, tiled=True)
    return np.asarray(leaf)


def memory_per_device(mesh: Mesh | None) -> int:
    """The default budget of each device: processors of one machine share its memory."""
    if mesh is None or mesh.devices.flat[0].platform != "cpu":
        return default_memory()
    return default_memory() // len(mesh.local_devices)
