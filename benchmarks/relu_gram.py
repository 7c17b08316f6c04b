# SPDX-License-Identifier: Apache-2.0
"""relu_gram against the plain product x @ x.T, and against the formula with XLA's arccos.

What bounds it: half the product (symmetry) plus writing the matrix twice, once mirrored; the
polynomial hides behind the memory traffic.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import first_call, interleaved
from unlazy.kernels import relu_gram

LIMIT = 1.3  # times the plain product


def with_arccos(x):
    c = jnp.clip(x @ x.T, -1, 1)
    return c * (math.pi - jnp.arccos(c)) / (2 * math.pi)


def main(n: int = 4000, d: int = 784) -> bool:
    print(f"\nrelu_gram, n = {n}, d = {d}: seconds, and times the product in the same dtype")
    print(
        f"{'dtype':8} {'product':>8} {'ours':>8} {'ratio':>6} "
        f"{'arccos':>8} {'ratio':>6} {'first':>6}"
    )
    within = True
    x = np.random.default_rng(0).standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            rows = jnp.asarray(x, dtype)
            product, naive = jax.jit(lambda x: x @ x.T), jax.jit(with_arccos)
            first = first_call(lambda rows=rows, dtype=dtype: relu_gram(rows, dtype=dtype))
            times = interleaved(
                {
                    "product": lambda rows=rows, product=product: product(rows),
                    "ours": lambda rows=rows, dtype=dtype: relu_gram(rows, dtype=dtype),
                    "arccos": lambda rows=rows, naive=naive: naive(rows),
                }
            )
        ours, other = times["ours"] / times["product"], times["arccos"] / times["product"]
        print(
            f"{dtype:8} {times['product']:8.3f} {times['ours']:8.3f} {ours:6.2f} "
            f"{times['arccos']:8.3f} {other:6.2f} {first:6.2f}"
        )
        within &= ours <= LIMIT
    print(f"limit {LIMIT}: {'within' if within else 'EXCEEDED'}")
    return within
