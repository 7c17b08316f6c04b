# SPDX-License-Identifier: Apache-2.0
"""How many epochs are trained in one call of the compiled program.

An accelerator runs one program at a time, and whatever else shares it waits for the end of each: a
kernel of a few milliseconds beside a wide network in training, or another grid. By the clock a wide
network's calls are short, and a grid that trains in seconds has few of them. What is computed does
not depend on it.
"""

import math
import time
from collections.abc import Iterable, Iterator

import jax

_TURN = 0.05  # seconds

_latest_end = -math.inf  # of a call by any thread


def spans(ends: Iterable[int]) -> Iterator[tuple[int, int]]:
    """From 0 to the last of `ends`, stopping at each of them, and every `_TURN` in between.

    It is the caller's time between two spans that is looked at, from the end of the call before it
    on: until then an accelerator was at work for another thread. A processor is shared by other
    means: there only `ends` count.
    """
    global _latest_end
    by_clock = jax.default_backend() != "cpu"
    epochs, done = 1, 0
    some, seconds = 0.0, 0.0  # epochs and what they took, the latest calls above all
    for end in ends:
        while done < end:
            last = min(end, done + epochs) if by_clock else end
            began = time.perf_counter()
            yield done, last
            now = time.perf_counter()
            seconds = seconds / 2 + now - max(began, _latest_end)
            some = some / 2 + last - done
            _latest_end = now
            # At most twice as many as before: the first call of a program takes longer than others.
            epochs = max(1, min(2 * epochs, int(some * _TURN / max(seconds, 1e-9))))
            done = last
