# SPDX-License-Identifier: Apache-2.0
"""Ours, as a user would call it: no `jit` around it, and every default kept."""

import jax
import jax.numpy as jnp

from benchmarks.peers.grid_problem import comparable
from benchmarks.peers.jax_networks import NETWORKS, split, split_moved
from benchmarks.peers.measure import Call, Task, serve
from benchmarks.peers.unlazy_grid import train_grid
from unlazy import __version__
from unlazy.kernels import empirical_ntk, empirical_ntk_traced, ntk
from unlazy.taylor import expand


def prepare(task: Task) -> Call:
    if task.case == "fit_grid":
        return _grid(task)
    if task.case.startswith("taylor"):
        return _taylor(task)
    return _analytic(task) if task.case.startswith("ntk") else _empirical(task)


def _grid(task: Task) -> Call:
    def call():
        jax.clear_caches()  # a grid is run once: its compilation counts
        return comparable(train_grid(task.inputs).table()["train"])

    return call


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


def _taylor(task: Task) -> Call:
    params, new, x = split_moved(task.inputs)
    # Compiled as a user's training step compiles it, and as neural-tangents is: not compiled, ours
    # would also look for kinks.
    model = jax.jit(expand(NETWORKS["mlp"], params, int(task.case.rsplit("_", 1)[1])))
    return lambda: jax.block_until_ready(model(new, x))


if __name__ == "__main__":
    serve(prepare, {"unlazy": __version__, "jax": jax.__version__})
