# SPDX-License-Identifier: Apache-2.0
"""Functions on the corners of a cube: Krawtchouk polynomials and the Walsh-Hadamard transform."""

import itertools
import math

import numpy as np
import scipy.linalg
from jaxtyping import Array, Float, Float64, Int

from unlazy.core.checks import MOST_IN_TABLE, check_count
from unlazy.core.entries import entry

_BITS = 6
_MOST_BITS = 28  # entries of a table of subsets are at most 2^28: 2 GB


@entry
def krawtchouk(d: int, degree: int, *, normalized: bool = False) -> Float64[np.ndarray, " {d}+1"]:
    r"""The Krawtchouk polynomial of a degree at every distance on the cube in `d` dimensions.

    $$K_k(j) = \sum_i (-1)^i \binom ji \binom{d-j}{k-i} = \sum_{|S| = k} \chi_S(x)\, \chi_S(x')$$

    for corners x, x' in $\{\pm1\}^d$ that differ in j places, $\chi_S(x) = \prod_{i \in S} x_i$:
    the part of degree k of every kernel that is a function of $\langle x, x'\rangle = d - 2j$, up
    to its factor.

    Source: RN-24, arXiv:1905.10337.

    The values at j = 0, .., d are summed in exact integers and rounded once.

    Args:
        d: dimension.
        degree: k, from 0 to d.
        normalized: divide by $K_k(0) = \binom dk$, which keeps the values within [-1, 1] where
            they would overflow.

    Example:
        >>> print(krawtchouk(4, 2))
        [ 6.  0. -2.  0.  6.]
    """
    check_count(d, "d", most=MOST_IN_TABLE)
    check_count(degree, "degree", least=0)
    if degree > d:
        raise ValueError(f"`degree` must be at most d={d}, got degree={degree}.")
    # Coefficients of (1 - z)^j (1 + z)^(d-j): multiplying by (1 - z) / (1 + z) raises j by one.
    values, row = [], [math.comb(d, i) for i in range(degree + 1)]
    divisor = row[-1] if normalized else 1
    for _ in range(d + 1):
        values.append(row[-1] / divisor)  # true division of integers, rounded correctly
        quotient = list(itertools.accumulate(row, lambda left, c: c - left))
        row = [c - before for c, before in zip(quotient, [0, *quotient], strict=False)]
    return np.array(values)


@entry
def walsh_hadamard(values: Float[Array | np.ndarray, "n *c"]) -> Float64[np.ndarray, "n *c"]:
    r"""The coefficients of functions on the cube in the basis of parities.

    $$\hat f(S) = 2^{-d} \sum_{x \in \{\pm1\}^d} f(x)\, \chi_S(x), \qquad
    f = \sum_S \hat f(S)\, \chi_S$$

    in $O(d\, 2^d)$ operations. Rows are in the order of `data.corners`, one per corner, and further
    axes are further functions. Coefficients are in the order of the number whose bits are the set;
    `special.subset_masks` gives these numbers for the sets of one size.

    Source: RN-21, arXiv:1905.10337.

    Example:
        >>> x = np.array([1.0, -1.0, 1.0, -1.0])  # the first coordinate
        >>> print(walsh_hadamard(x))
        [0. 1. 0. 0.]
    """
    n = np.shape(values)[0] if np.ndim(values) else 0
    if n < 1 or n & (n - 1):
        raise ValueError(f"`values` must have 2^d rows, one a corner, got {n}.")
    tensor = np.asarray(values, np.float64)
    shape, bits = tensor.shape, n.bit_length() - 1
    # Six bits at a time, as products: far faster than butterflies, which read all for each bit.
    sizes = [2 ** min(_BITS, bits - start) for start in range(0, bits, _BITS)]
    before, after = 1, n
    for size in sizes:
        after //= size
        H = scipy.linalg.hadamard(size).astype(np.float64)
        tensor = H @ tensor.reshape(before, size, after * math.prod(shape[1:]))
        before *= size
    return tensor.reshape(shape) / n


@entry
def subset_masks(d: int, size: int) -> Int[np.ndarray, " s"]:
    """The subsets of one size of d coordinates as numbers whose bits they are, as in `subsets`.

    Example:
        >>> print(subset_masks(3, 2))
        [3 5 6]
    """
    return np.asarray(np.sum(1 << subsets(d, size), axis=1, dtype=np.int64))


@entry
def subsets(d: int, size: int) -> Int[np.ndarray, "s k"]:
    """All subsets of one size of d coordinates, one per row, in lexicographic order.

    Example:
        >>> print(subsets(3, 2).tolist())
        [[0, 1], [0, 2], [1, 2]]
    """
    check_count(d, "d")
    check_count(size, "size", least=0)
    # There are at least (d / size)^size subsets; beyond the limit they are not even counted.
    k = min(size, d - size)
    too_many = k > 0 and k * math.log2(d / k) > _MOST_BITS
    count = 0 if size > d or too_many else math.comb(d, size)
    if too_many or count * size > 2**_MOST_BITS:
        raise ValueError(
            f"`size` must give at most 2^{_MOST_BITS} entries in all subsets, got size={size} of "
            f"d={d} coordinates."
        )
    rows = itertools.chain.from_iterable(itertools.combinations(range(d), size))
    return np.fromiter(rows, np.int64, count * size).reshape(count, size)
