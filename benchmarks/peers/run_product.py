# SPDX-License-Identifier: Apache-2.0
"""The plain product x @ x.T, which the analytic kernel cannot do without."""

import jax
import jax.numpy as jnp

from benchmarks.peers.measure import Call, Task, serve


def prepare(task: Task) -> Call:
    # A process for this alone, so the global setting is nobody else's.
    jax.config.update("jax_enable_x64", task.inputs["x"].dtype == "float64")
    x = jnp.asarray(task.inputs["x"])
    product = jax.jit(lambda x: x @ x.T)
    return lambda: product(x).block_until_ready()


if __name__ == "__main__":
    serve(prepare, {"jax": jax.__version__})
