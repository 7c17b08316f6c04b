# SPDX-License-Identifier: Apache-2.0
"""Results that several cells need and one of them computes."""

import functools
import threading
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from unlazy.core.entries import entry

P = ParamSpec("P")
T = TypeVar("T")


@entry
def shared_by_cells(latest: int) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Keep the `latest` results of a function; a cell waits while another computes one.

    `functools.lru_cache` alone would compute once for every thread that asks meanwhile.

    Example:
        >>> @shared_by_cells(latest=1)
        ... def spectrum(n):
        ...     print("computed")
        ...     return list(range(n))
        >>> spectrum(2), spectrum(2)
        computed
        ([0, 1], [0, 1])
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        cached, turn = functools.lru_cache(latest)(function), threading.Lock()

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            with turn:
                return cached(*args, **kwargs)  # pyright: ignore[reportArgumentType]  # hashable

        return call

    return decorate
