# SPDX-License-Identifier: Apache-2.0
"""The records of a probe, in memory and in its folder if it has one."""

import os
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from unlazy.laziness.probing.arrays import arrays_of, filled
from unlazy.laziness.probing.folder import Folder, Point


class Stored(NamedTuple):
    """What a folder is about, and the arrays of the start in it."""

    about: dict[str, Any]
    start: dict[str, np.ndarray]


class Notebook:
    """Records in the order of their steps with their kernels, and parameters if they are kept."""

    def __init__(self, folder: str | os.PathLike[str] | None, *, keep_params: bool) -> None:
        """Make the folder; `open` reads the records in it."""
        self.folder = None if folder is None else Folder(folder)
        self.points: list[Point] = []
        self._keeps = keep_params
        self._params: dict[int | float, dict[str, np.ndarray]] = {}

    def stored(self) -> Stored | None:
        """What the folder holds from before; None for a new folder, or none."""
        about = None if self.folder is None else self.folder.about()
        return None if self.folder is None or about is None else Stored(about, self.folder.start())

    def open(self, about: dict[str, Any], start: dict[str, np.ndarray]) -> None:
        """Read the records of a folder that has some, or begin a new one."""
        if self.folder is None:
            return
        if self.folder.about() is None:
            self.folder.begin(about, start)
        self.points = self.folder.points()

    def kernel_before(self, step: int | float) -> Float[np.ndarray, "n n"] | None:
        """The kernel at the last record before a step; None if there is none."""
        kernels = [p.kernel for p in self.points if p.record.step < step and p.kernel is not None]
        return kernels[-1] if kernels else None

    def add(self, point: Point, params: Any) -> list[int | float]:
        """Keep a record in the place of that of its step and of all later ones.

        Returns the later steps, whose records are dropped. Parameters are written before the
        record, so that a record in the folder has them.
        """
        step = point.record.step
        replaced = [p.record.step for p in self.points if p.record.step >= step]
        self.points = [p for p in self.points if p.record.step < step]
        for old in replaced:
            self._forget(old)
        if self._keeps and params is not None and point.kernel is not None:
            self._keep(step, arrays_of(params))
        self.points.append(point)
        if self.folder is not None:
            if replaced:
                self.folder.rewrite(self.points)
            else:
                self.folder.append(point)
        return [old for old in replaced if old > step]

    def _keep(self, step: int | float, arrays: dict[str, np.ndarray]) -> None:
        if self.folder is None:
            self._params[step] = arrays
        else:
            self.folder.keep_params(step, arrays)

    def _forget(self, step: int | float) -> None:
        if self.folder is None:
            self._params.pop(step, None)
        else:
            self.folder.forget_params(step)

    def kept_params(self, like: Any) -> list[tuple[int | float, Any]]:
        """The parameters that were kept, with their steps, in the form of `like`."""
        found = []
        for point in self.points:
            step = point.record.step
            arrays = self._params.get(step) if self.folder is None else self.folder.params(step)
            if arrays is not None:
                found.append((step, filled(like, arrays)))
        return found
