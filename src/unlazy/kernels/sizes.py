# SPDX-License-Identifier: Apache-2.0
"""Few sizes of matrices, so that few programs are compiled.

JAX compiles a program for every shape. A kernel of closed form takes a second or two to compile and
milliseconds to run on a few hundred rows, so that a search over folds and tables would compile most
of the time. Rows and columns are therefore padded with zeros up to one of few sizes: some fifty
numbers of rows up to 4096, beyond which the arithmetic takes longer than the compiler does.
"""

import bisect

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

_ROWS = (
    *(8, 16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 448),
    *range(512, 1024, 128),
    *range(1024, 4096 + 1, 256),
)
_COLUMNS = (4, 8, 16, 32, 64, 128, 192, 256, 384, 512, 784, 1024)


def rows_for(n: int) -> int:
    """The size of a matrix for n rows: n itself beyond 4096."""
    return _at_least(n, _ROWS)


def padded(x: Array | np.ndarray) -> Array | np.ndarray:
    """The samples, with rows and columns of zeros up to one of few sizes."""
    rows, columns = x.shape
    extra = rows_for(rows) - rows, _at_least(columns, _COLUMNS) - columns
    if not any(extra):
        return x
    pad = np.pad if isinstance(x, np.ndarray) else jnp.pad
    return pad(x, ((0, extra[0]), (0, extra[1])))


def _at_least(size: int, sizes: tuple[int, ...]) -> int:
    place = bisect.bisect_left(sizes, size)
    return sizes[place] if place < len(sizes) else size
