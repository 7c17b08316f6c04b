# SPDX-License-Identifier: Apache-2.0
"""The state of a long solve in a folder, so that the same call goes on after it was killed."""

import hashlib
import io
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Float64, UInt32, UInt64

from unlazy.core import disk
from unlazy.core.errors import StoreError
from unlazy.core.float64 import float64

_SECONDS = 60.0  # between two states
_FILE = "state.npz"


class Checkpoint:
    """A file that holds the latest state of one problem, whole or not at all; without pickle."""

    def __init__(self, folder: Path | str | None, problem: str) -> None:
        """The checkpoint in `folder`, or none at all (None); `problem` tells whose it is."""
        self.folder, self.problem = None if folder is None else Path(folder), problem
        self.saved = time.monotonic()
        if self.folder is not None:
            disk.make_writable(self.folder)

    def load(self) -> dict[str, np.ndarray] | None:
        """The stored state, if there is one.

        Raises:
            StoreError: If it cannot be read, or is that of another problem.
        """
        if self.folder is None or not (path := self.folder / _FILE).exists():
            return None
        try:
            with disk.open_regular(path) as file, np.load(file, allow_pickle=False) as stored:
                state = {name: stored[name] for name in stored.files}
            problem = str(state.pop("problem"))
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise StoreError(
                f"the checkpoint '{path}' is damaged: {error}. Delete it to begin anew."
            ) from error
        if problem != self.problem:
            raise StoreError(
                f"the checkpoint '{path}' is that of another problem (samples, labels, kernel, "
                "ridge, landmarks or purpose differ). Give another folder, or delete it to begin "
                "anew."
            )
        return state

    def save(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the stored state."""
        if self.folder is None:
            return
        data = io.BytesIO()
        np.savez(data, allow_pickle=False, problem=np.array(self.problem), **state)
        disk.replace_file(self.folder / _FILE, data.getvalue())
        self.saved = time.monotonic()

    @property
    def is_due(self) -> bool:
        """Whether the stored state is a minute old."""
        return self.folder is not None and time.monotonic() - self.saved > _SECONDS


def problem_digest(
    x: Float[Array, "N d"], y: Float64[np.ndarray, "n c"], settings: str, *, purpose: str
) -> str:
    """What tells this problem from others: its samples, labels and settings, and what it is for."""
    told = f"{purpose} {settings} {x.shape} {y.shape} {_checksums(x)}"
    return hashlib.sha256(told.encode() + y.tobytes()).hexdigest()


def _checksums(x: Float[Array, "N d"]) -> list[int]:
    """Two sums of all bits of the samples, each row and column with a weight of its own.

    Sums of integers modulo a power of two come out the same in any order, so that the device can
    make them, in one pass: a million images would take seconds to copy to the host.
    """
    draw, words = np.random.default_rng(0), x.dtype.itemsize // 4
    with float64():
        rows = _odd(draw, len(x), np.dtype(np.uint64))
        columns = _odd(draw, words * x.shape[1], np.dtype(np.uint32))
        return [int(total) for total in np.asarray(_weighted_bits(x, rows, columns))]


def _odd(draw: np.random.Generator, count: int, dtype: np.dtype) -> Array:
    return jnp.asarray(draw.integers(np.iinfo(dtype).max, size=(2, count), dtype=dtype) | 1)


@jax.jit
def _weighted_bits(
    x: Float[Array, "N d"], rows: UInt64[Array, "2 N"], columns: UInt32[Array, "2 w"]
) -> UInt64[Array, "2"]:
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32).reshape(len(x), -1)
    low, high = (jnp.sum(bits * weights[None], axis=1, dtype=jnp.uint32) for weights in columns)
    per_row = low.astype(jnp.uint64) | (high.astype(jnp.uint64) << 32)
    return jnp.sum(per_row[None] * rows, axis=1, dtype=jnp.uint64)
