# SPDX-License-Identifier: Apache-2.0
"""How the lanes of a grid are cut into chunks of one shape."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int


@dataclass(frozen=True)
class Chunk:
    """Some seeds times some settings; past the end the last one is repeated to fill the shape."""

    rows: Int[np.ndarray, " r"]  # which seeds
    columns: Int[np.ndarray, " g"]  # which settings
    seeds: int  # how many rows count
    settings: int  # how many columns count

    @property
    def lanes(self) -> int:
        """How many of its lanes count."""
        return self.seeds * self.settings

    @property
    def place(self) -> Any:
        """The index of its lanes in an array over the whole grid, seeds and settings last."""
        i, j = int(self.rows[0]), int(self.columns[0])
        return np.s_[..., i : i + self.seeds, j : j + self.settings]


@dataclass(frozen=True)
class Tiling:
    """The grid of `seeds` by `settings` in tiles of `rows` by `columns`."""

    seeds: int
    settings: int
    rows: int
    columns: int

    def __iter__(self) -> Iterator[Chunk]:
        for i in range(0, self.seeds, self.rows):
            for j in range(0, self.settings, self.columns):
                yield Chunk(
                    np.minimum(np.arange(i, i + self.rows), self.seeds - 1).astype(np.int32),
                    np.minimum(np.arange(j, j + self.columns), self.settings - 1).astype(np.int32),
                    min(self.rows, self.seeds - i),
                    min(self.columns, self.settings - j),
                )


def tile(seeds: int, settings: int, *, most: int, workers: int) -> Tiling:
    """Tiles of at most `most` lanes, balanced, their number a multiple of `workers` if it can be.

    Settings of one seed share its mini-batches, so a tile takes a second seed only when it has
    room for all settings of the first.
    """
    most = max(1, min(most, math.ceil(seeds * settings / workers)))
    rows = math.ceil(seeds / math.ceil(seeds / max(1, most // settings)))
    down = math.ceil(seeds / rows)
    fewest = math.ceil(settings / max(1, most // rows))
    choices = range(fewest, min(settings, fewest + workers) + 1)
    across = next((count for count in choices if down * count % workers == 0), fewest)
    return Tiling(seeds, settings, rows, math.ceil(settings / across))
