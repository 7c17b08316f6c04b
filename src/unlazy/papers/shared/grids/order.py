# SPDX-License-Identifier: Apache-2.0
"""In which order the cells of a comparison are computed."""

from collections.abc import Callable, Iterable
from itertools import zip_longest

from unlazy.experiments import Cell

# How many cells of little work go along with one of much: about as many as the other workers
# compute while one trains a network of m = 5000. Better too many than too few: what is left in the
# end, without others to be compiled meanwhile, is then much work.
_ALONG = 9


def mixed(
    networks: Iterable[Cell], kernels: Iterable[Cell], *, work: Callable[[Cell], float]
) -> list[Cell]:
    """The networks of most `work` one by one, and some of all other cells along with each.

    A device that several cells share trains the former, and meanwhile the programs of the latter
    are compiled, which takes longer than to run them.
    """
    by_work = sorted(networks, key=work, reverse=True)
    much = [cell for cell in by_work if work(cell) > work(by_work[0]) / 4]
    pairs = zip_longest(by_work[len(much) :], kernels)
    little = [cell for pair in pairs for cell in pair if cell is not None]
    order = []
    for place, cell in enumerate(much):
        order += [cell, *little[_ALONG * place : _ALONG * (place + 1)]]
    return order + little[_ALONG * len(much) :]
