# SPDX-License-Identifier: Apache-2.0
"""Rows in parts of one size, so that one compiled program serves all of them."""

import itertools
from typing import NamedTuple


def even_parts(n: int, count: int) -> list[tuple[int, int]]:
    """Where each of `count` parts of n rows starts and stops; their sizes differ by 1 at most."""
    edges = [n * k // count for k in range(count + 1)]
    return list(itertools.pairwise(edges))


class Blocks(NamedTuple):
    """Parts of one size, so that one program serves them all: some reach into the next part."""

    starts: tuple[int, ...]
    size: int


def of_one_size(parts: list[tuple[int, int]]) -> Blocks:
    """The parts, each as large as the largest."""
    n, size = parts[-1][1], max(stop - start for start, stop in parts)
    return Blocks(tuple(min(start, n - size) for start, _ in parts), size)
