# SPDX-License-Identifier: Apache-2.0
"""ntk against the plain product x @ x.T: depths, and activations without a closed form.

What bounds depth 1: half the product (symmetry) plus writing the matrix twice. Each further layer
adds a polynomial of degree 18 an entry, each term of a series three operations.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import first_call, interleaved
from unlazy.kernels import ntk

LIMIT = 1.3  # times the plain product, for one hidden ReLU layer
CASES: dict[str, dict[str, Any]] = {
    "relu 1": {"depth": 1},
    "relu 1, bias": {"depth": 1, "bias_variance": 0.1},
    "relu 3": {"depth": 3},
    "erf 1": {"activation": "erf"},
    "tanh 1": {"activation": "tanh"},
    "gelu 2": {"activation": "gelu", "depth": 2},
}


def main(n: int = 4000, d: int = 784) -> bool:
    print(f"\nntk, n = {n}, d = {d}: seconds, and times the product in the same dtype")
    print(f"{'dtype':8} {'network':14} {'seconds':>8} {'ratio':>6} {'first':>6}")
    within = True
    # Rows of norm sqrt(d), as standardised data have: the first layer's outputs have variance 2.
    x = np.random.default_rng(0).standard_normal((n, d))
    for dtype in ("float32", "float64"):
        with jax.enable_x64(dtype == "float64"):
            rows = jnp.asarray(x, dtype)
            calls: dict[str, Callable[[], Any]] = {
                "product": functools.partial(jax.jit(lambda x: x @ x.T), rows)
            }
            for name, options in CASES.items():
                calls[name] = functools.partial(ntk, rows, dtype=dtype, **options)
            first = {name: first_call(call) for name, call in calls.items()}
            times = interleaved(calls, rounds=5)
        for name, seconds in times.items():
            ratio = seconds / times["product"]
            print(f"{dtype:8} {name:14} {seconds:8.3f} {ratio:6.2f} {first[name]:6.2f}")
        within &= times["relu 1"] / times["product"] <= LIMIT
    print(f"limit {LIMIT} for relu 1: {'within' if within else 'EXCEEDED'}")
    return within
