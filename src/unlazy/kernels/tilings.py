# SPDX-License-Identifier: Apache-2.0
"""A Gram matrix cut into square tiles, and how the devices of a mesh share them."""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.current import program_of
from unlazy.kernels.row_products import RowProduct, products

WHOLE = PartitionSpec()  # a copy on every device


@dataclass(frozen=True)
class Tiling:
    """What the programs on tiles depend on besides arrays."""

    kernel: Callable[..., Array] = field(compare=False)
    program: Hashable  # what the kernel computed when it was traced: equal ones compile once
    product: RowProduct
    rows: int  # of a tile
    mesh: Mesh | None

    @classmethod
    def of(
        cls,
        kernel: Callable[..., Array],
        product: RowProduct,
        rows: int,
        x: Float[Array, "n d"],
        mesh: Mesh | None,
    ) -> "Tiling":
        """Tiles of so many rows of a kernel of samples like `x`."""

        def both(x1: Array, x2: Array) -> tuple[Array, Array]:
            return kernel(x1), kernel(x1, x2)

        tile = jax.ShapeDtypeStruct((rows, x.shape[1]), x.dtype)
        return cls(kernel, program_of(both, tile, tile), product, rows, mesh)

    def entries(self, x1: Float[Array, "b1 d"], x2: Float[Array, "b2 d"]) -> Float[Array, "b1 b2"]:
        """The kernel between two blocks of rows."""
        with products(self.product):
            return self.kernel(x1, x2)

    @property
    def devices(self) -> int:
        """How many devices share the tiles."""
        return 1 if self.mesh is None else self.mesh.size

    def spread(self) -> PartitionSpec:
        """The first axis over all devices."""
        return WHOLE if self.mesh is None else PartitionSpec(self.mesh.axis_names)

    def place(self, array: Any, spec: PartitionSpec = WHOLE) -> Array:
        """The array where the programs need it; every process of a mesh has it whole."""
        if self.mesh is None:
            return jnp.asarray(array)
        sharding, host = NamedSharding(self.mesh, spec), np.asarray(array)
        return jax.make_array_from_callback(host.shape, sharding, lambda index: host[index])

    def sums(self, *shape: int) -> Float64[Array, "devices ..."]:
        """A float64 array of zeros on each device, to add parts to."""
        placed = None if self.mesh is None else NamedSharding(self.mesh, self.spread())
        return jnp.zeros((self.devices, *shape), jnp.float64, device=placed)

    def on_devices(
        self, function: Callable[..., Array], specs: tuple[PartitionSpec, ...], out: PartitionSpec
    ) -> Callable[..., Array]:
        """The function as every device runs it, with its part of the arguments."""
        if self.mesh is None:
            return function
        placed = {"in_specs": specs, "out_specs": out}
        return jax.shard_map(function, mesh=self.mesh, check_vma=False, **placed)


def block(array: Array, number: Array | int, rows: int) -> Array:
    """The rows of one block."""
    return jax.lax.dynamic_slice_in_dim(array, number * rows, rows)


def shares(blocks: int, devices: int) -> Int[np.ndarray, "devices share"]:
    """The numbers of the blocks of rows that each device has, in order; -1 fills up a share."""
    share = math.ceil(blocks / devices)
    numbers = np.arange(devices * share, dtype=np.int32)
    return np.where(numbers < blocks, numbers, -1).reshape(devices, share)
