# SPDX-License-Identifier: Apache-2.0
"""Ours, as a user would call it: no `jit` around it, and every default kept."""

import jax
import jax.numpy as jnp

from benchmarks.peers.jax_networks import NETWORKS, split
from benchmarks.peers.measure import Call, Task, serve
from unlazy import __version__
from unlazy.kernels import empirical_ntk, empirical_ntk_traced, ntk


def prepare(task: Task) -> Call:
    return _analytic(task) if task.case.startswith("ntk") else _empirical(task)


def _analytic(task: Task) -> Call:
    dtype = str(task.inputs["x"].dtype)
    with jax.enable_x64(dtype == "float64"):
        x = jnp.asarray(task.inputs["x"])
    return lambda: jax.block_until_ready(
        ntk(x, depth=1, activation="relu", weight_variance=2.0, bias_variance=0.0, dtype=dtype)
    )


def _empirical(task: Task) -> Call:
    params, x = split(task.inputs)
    kernel = empirical_ntk_traced if task.case == "two_layer" else empirical_ntk
    return lambda: jax.block_until_ready(kernel(NETWORKS[task.case], params, x))


if __name__ == "__main__":
    serve(prepare, {"unlazy": __version__, "jax": jax.__version__})
