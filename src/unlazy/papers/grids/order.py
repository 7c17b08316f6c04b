# SPDX-License-Identifier: Apache-2.0
"""In which order the cells of a comparison are computed."""

from collections.abc import Callable, Iterable
from itertools import zip_longest

from unlazy.experiments import Cell


def mixed(
    networks: Iterable[Cell], kernels: Iterable[Cell], *, work: Callable[[Cell], float]
) -> list[Cell]:
    """The networks of most `work` first, and kernels in between.

    A device that several cells share trains those while these, many small programs, are compiled.
    """
    heavy_first = sorted(networks, key=work, reverse=True)
    pairs = zip_longest(heavy_first, kernels)
    return [cell for pair in pairs for cell in pair if cell is not None]
