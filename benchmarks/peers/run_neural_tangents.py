# SPDX-License-Identifier: Apache-2.0
"""neural-tangents 0.6.5, everything under one `jit`.

Its best settings, as found on two cores: `vmap_axes=0` (structured derivatives take 40 times as
long without it), weights as `x @ W`, not `x @ W.T` (280 times), and each of the three
implementations as a variant of its own; the fourth, AUTO, may return wrong results on a CPU by its
own documentation. `x2=None` is what it advises for equal inputs.
"""

import sys
import types

import jax

from benchmarks.peers.jax_networks import NETWORKS, split, split_moved
from benchmarks.peers.measure import Call, Task, serve

# The package imports its TensorFlow bridge, which nothing here uses: TensorFlow would have to be
# installed for it, and would count as this library's memory.
sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")

import neural_tangents as nt  # noqa: E402  # pyright: ignore[reportMissingImports]
from neural_tangents import stax  # noqa: E402  # pyright: ignore[reportMissingImports]


def prepare(task: Task) -> Call:
    double = task.case.endswith("float64")
    jax.config.update("jax_enable_x64", double)
    if task.case.startswith("taylor"):
        return _taylor(task)
    return _analytic(task) if task.case.startswith("ntk") else _empirical(task)


def _analytic(task: Task) -> Call:
    # W_std^2 is our weight variance, and both weight layers are trained in ours as in theirs. The
    # width does not enter the limit.
    dense = {"W_std": 2**0.5, "b_std": None, "parameterization": "ntk"}
    _, _, kernel = stax.serial(stax.Dense(1, **dense), stax.Relu(), stax.Dense(1, **dense))
    x = jax.numpy.asarray(task.inputs["x"])
    compiled = jax.jit(lambda x: kernel(x, None, "ntk"))
    return lambda: compiled(x).block_until_ready()


def _empirical(task: Task) -> Call:
    params, x = split(task.inputs)
    traced = (-1,) if task.case == "two_layer" else ()
    kernel = nt.empirical_ntk_fn(
        NETWORKS[task.case],
        trace_axes=traced,
        vmap_axes=0,
        implementation=nt.NtkImplementation[task.variant.upper()],
    )
    compiled = jax.jit(lambda params, x: kernel(x, None, params))
    return lambda: compiled(params, x).block_until_ready()


def _taylor(task: Task) -> Call:
    params, new, x = split_moved(task.inputs)
    order = int(task.case.rsplit("_", 1)[1])
    compiled = jax.jit(lambda p0, p, x: nt.taylor_expand(NETWORKS["mlp"], p0, order)(p, x))
    return lambda: compiled(params, new, x).block_until_ready()


if __name__ == "__main__":
    serve(prepare, {"neural-tangents": nt.__version__, "jax": jax.__version__})
