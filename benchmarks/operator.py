# SPDX-License-Identifier: Apache-2.0
"""Products with a Gram matrix in tiles, against the matrix whole: what symmetry and tiling cost.

What bounds it: the evaluation of half of the kernel; the product with a few columns is far less.
"""

import numpy as np

from benchmarks.timing import interleaved
from unlazy.kernels import operator, relu_gram

LIMIT = 1.6  # times evaluating the matrix whole and multiplying once


def main(n: int = 4000, d: int = 784, columns: int = 10) -> bool:
    x = np.random.default_rng(0).standard_normal((n, d))
    V = np.random.default_rng(1).standard_normal((n, columns))
    tiled = operator(relu_gram, x, memory=4e8)
    small = operator(relu_gram, x, memory=2e7)
    times = interleaved(
        {
            "whole": lambda: np.asarray(relu_gram(x)) @ V,
            "tiles": lambda: tiled.matmat(V),
            "small tiles": lambda: small.matmat(V),
        },
        rounds=5,
    )
    print(f"\noperator.matmat, n = {n}, d = {d}, {columns} columns: seconds, and times whole")
    for name, seconds in times.items():
        print(f"{name:12} {seconds:8.3f} {seconds / times['whole']:6.2f}")
    within = times["tiles"] <= LIMIT * times["whole"]
    print(f"limit {LIMIT}: {'within' if within else 'EXCEEDED'}")
    return within
