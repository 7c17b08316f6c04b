# SPDX-License-Identifier: Apache-2.0
"""Taylor terms of a CNN against a forward pass of equal precision.

What bounds order k: 2k + 1 convolutions for each one of a forward pass, and two for the first.
Pre-activations that are exactly zero by chance have JAX's derivative.
"""

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.peers.jax_operations import JaxOps
from benchmarks.peers.real_networks import cases
from benchmarks.timing import interleaved
from unlazy.taylor import terms

ORDERS = (1, 2, 4)
SLACK = 1.3


def main(n: int | None = None) -> bool:
    n = n or (16 if jax.default_backend() == "cpu" else 500)
    case = cases(n)["cnn"]

    def f(params, x):
        return case.network(JaxOps, params, x)

    params, x = jax.tree.map(jnp.asarray, case.params), jnp.asarray(case.x)
    rng = np.random.default_rng(1)
    delta = jax.tree.map(
        lambda p: jnp.asarray(0.01 * rng.standard_normal(p.shape), p.dtype), params
    )
    print(f"\ntaylor terms of a CNN of six convolutions, n = {n}, float32: forward passes")
    within = True
    with jax.default_matmul_precision("highest"):
        forward = jax.jit(f)
        for order in ORDERS:
            times = interleaved(
                {
                    "forward": lambda: forward(params, x),
                    "terms": lambda k=order: terms(f, params, delta, x, k, at_kinks="jax"),
                }
            )
            passes, limit = times["terms"] / times["forward"], SLACK * (2 * order + 1)
            within &= passes <= limit
            print(f"order {order}: {passes:5.2f} passes, limit {limit:4.1f}")
    print(f"limits: {'within' if within else 'EXCEEDED'}")
    return within
