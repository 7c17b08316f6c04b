# SPDX-License-Identifier: Apache-2.0
"""How many epochs are trained in one call of the compiled program.

An accelerator runs one program at a time, and whatever else shares it waits for the end of each: a
kernel of a few milliseconds beside a wide network in training, or another grid. By the clock a wide
network's calls are short, and a grid that trains in seconds has few of them. What is computed does
not depend on it.
"""

import time
from collections.abc import Iterable, Iterator

import jax

_TURN = 0.25  # seconds


def spans(ends: Iterable[int]) -> Iterator[tuple[int, int]]:
    """From 0 to the last of `ends`, stopping at each of them, and every `_TURN` in between.

    It is the caller's time between two spans that is looked at. A processor is shared by other
    means: there only `ends` count.
    """
    by_clock = jax.default_backend() != "cpu"
    epochs, done = 1, 0
    for end in ends:
        while done < end:
            last = min(end, done + epochs) if by_clock else end
            began = time.perf_counter()
            yield done, last
            seconds = time.perf_counter() - began
            # At most twice as many as before: the first call of a program takes longer than others.
            epochs = max(1, min(2 * epochs, int((last - done) * _TURN / max(seconds, 1e-9))))
            done = last
