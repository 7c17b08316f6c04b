# SPDX-License-Identifier: Apache-2.0
"""Products of long rows on a processor, by the library that NumPy multiplies with.

XLA's products of a few rows with millions of columns read both factors into buffers of their own,
and do the work of a symmetric product twice. On two cores OpenBLAS takes 7.6 ms for the product of
50 rows of 147456 columns with themselves, where XLA takes 12 in parts and 21 at once, and 43 and 52
ms for 200 rows. More rows are cut into tiles, of which XLA computes half: then it is the faster of
the two (a CNN of 100 samples and 10 outputs, 0.13 and 0.16 s).
"""

import jax
import numpy as np
from jaxtyping import Array, Float

from unlazy.core.checks import is_known

# Columns that are added up at a time: sums of millions of terms in float32 lose digits.
_PART = 2**14
_LONG = 2**13  # columns; XLA joins shorter products with what comes before and after
_FEW = 256  # rows


def is_on_host(g: Float[Array, "n c p"], *, traced: bool) -> bool:
    """Whether the product of these gradients with others is made here.

    They are few and long, and lie in the memory of the processor. Each is a row, or with `traced`
    those of all outputs together.
    """
    n, c, p = g.shape
    rows, columns = (n, c * p) if traced else (n * c, p)
    is_long = rows < _FEW and columns >= _LONG and g.dtype in (np.float32, np.float64)
    return is_long and is_known(g) and jax.default_backend() == "cpu"


def product_on_host(
    one: Float[Array | np.ndarray, "r1 ..."], two: Float[Array | np.ndarray, "r2 ..."]
) -> Float[np.ndarray, "r1 r2"]:
    """The inner products of rows; if `two` is `one`, half of the work, and symmetric."""
    a = np.asarray(one).reshape(len(one), -1)  # no copy
    b = a if two is one else np.asarray(two).reshape(len(two), -1)
    total = np.zeros((len(a), len(b)), a.dtype)
    for k in range(0, a.shape[1], _PART):
        columns = slice(k, k + _PART)
        # NumPy sees that both are views of one array, and asks for a symmetric product.
        total += a[:, columns] @ b[:, columns].T
    return total
