# SPDX-License-Identifier: Apache-2.0
"""A grid on several devices: each device runs the program of a chunk on a chunk of its own.

Devices share nothing while they train, so that a lane computes what it would on one device.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, PartitionSpec

from unlazy.core.meshes import along, place
from unlazy.train.grid.memory import Chunk


@dataclass(frozen=True)
class Wave:
    """Chunks that are trained together, one per device; those past the end do not count."""

    chunks: tuple[Chunk, ...]
    rows: Any  # (devices, r), on the devices
    columns: Any  # (devices, g)

    @property
    def lanes(self) -> int:
        """How many of its lanes count."""
        return sum(chunk.lanes for chunk in self.chunks)

    def parts(self, values: Any) -> Iterator[tuple[Chunk, Any]]:
        """Each chunk that counts, with its part of arrays that have a leading axis of devices."""
        for i, chunk in enumerate(self.chunks):
            if chunk.lanes:
                yield chunk, jax.tree.map(lambda leaf, i=i: leaf[i], values)


def waves(chunks: Iterable[Chunk], mesh: Mesh) -> Iterator[Wave]:
    """The chunks, as many at a time as there are devices; the last wave is filled up."""
    left = iter(chunks)
    while some := tuple(islice(left, mesh.size)):
        idle = replace(some[-1], seeds=0, settings=0)
        together = some + (idle,) * (mesh.size - len(some))
        rows, columns = (
            place(np.stack([getattr(chunk, name) for chunk in together]), along(mesh, 0))
            for name in ("rows", "columns")
        )
        yield Wave(together, rows, columns)


def on_each(mesh: Mesh | None, function: Callable, own: tuple[bool, ...]) -> Callable:
    """`function` on every device, with its own entry of the arguments that `own` marks.

    Those have a leading axis of devices, and so do the results; devices share the others.
    """
    if mesh is None:
        return function

    def of_device(*arguments: Any) -> Any:
        entries = [
            jax.tree.map(lambda leaf: leaf[0], argument) if is_own else argument
            for argument, is_own in zip(arguments, own, strict=True)
        ]
        return jax.tree.map(lambda leaf: leaf[None], function(*entries))

    split, whole = PartitionSpec(mesh.axis_names), PartitionSpec()
    specs = tuple(split if is_own else whole for is_own in own)
    # Unchecked: loops of a user's loss would have to say which values differ between devices.
    return jax.shard_map(of_device, mesh=mesh, in_specs=specs, out_specs=split, check_vma=False)


def described(tree: Any, mesh: Mesh | None) -> Any:
    """Shapes of one chunk's arrays, with the leading axis of devices where there is a mesh."""
    if mesh is None:
        return tree
    return jax.tree.map(
        lambda leaf: jax.ShapeDtypeStruct(
            (mesh.size, *leaf.shape), leaf.dtype, sharding=along(mesh, 0)
        ),
        tree,
    )
