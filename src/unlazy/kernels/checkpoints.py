# SPDX-License-Identifier: Apache-2.0
"""The state of a long solve in a folder, so that the same call goes on after it was killed."""

import hashlib
import io
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from jaxtyping import Array, Float, Float64

from unlazy.core import disk
from unlazy.core.errors import StoreError

_SECONDS = 60.0  # between two states
_ROWS = 1000  # samples that tell one problem from another
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
                "ridge or landmarks differ). Give another folder, or delete it to begin anew."
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
    x: Float[Array | np.ndarray, "n d"], y: Float64[np.ndarray, "n c"], settings: str
) -> str:
    """What tells this problem from others: its labels, some of its samples and its settings."""
    some = np.asarray(x[:: max(1, len(x) // _ROWS)], np.float32)
    parts = (str(x.shape).encode(), some.tobytes(), y.tobytes(), settings.encode())
    return hashlib.sha256(b"|".join(parts)).hexdigest()
