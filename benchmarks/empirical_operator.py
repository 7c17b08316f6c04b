# SPDX-License-Identifier: Apache-2.0
"""Memory of products with the tangent kernel of a CNN: neither kernel nor Jacobian is held.

Each size runs in a process of its own, which reads the peak of its resident memory after one
product. Compiling the programs counts.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from benchmarks.operator_memory import MEGABYTE, status

MEMORY = 600 * MEGABYTE
SIZES = (2000, 4000)
OUTPUTS = 10


def main() -> bool:
    print("\nempirical_operator: memory of a product, CNN 3-32-32-64 on 16x16, 10 outputs")
    within = True
    for n in SIZES:
        found = measure(n)
        within &= found["taken"] <= MEMORY
        kernel, jacobian = (8 * (n * OUTPUTS) ** 2, 4 * n * OUTPUTS * found["parameters"])
        print(
            f"n = {n}: took {found['taken'] / MEGABYTE:.0f} MB of {MEMORY / MEGABYTE:.0f} in "
            f"{found['seconds']:.1f} s; kernel {kernel / MEGABYTE:.0f} MB, "
            f"Jacobian {jacobian / MEGABYTE:.0f} MB {'' if within else 'EXCEEDED'}",
            flush=True,
        )
    return within


def measure(n: int) -> dict:
    """The bytes that a product takes, in a new process."""
    command = [sys.executable, "-m", "benchmarks.empirical_operator", str(n)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def network():
    import jax
    import numpy as np

    shapes = {"a": (3, 3, 3, 32), "b": (3, 3, 32, 32), "c": (3, 3, 32, 64), "w": (64, OUTPUTS)}
    draw = np.random.default_rng(0)
    params = {
        name: draw.standard_normal(shape, np.float32) / np.float32(np.sqrt(np.prod(shape[:-1])))
        for name, shape in shapes.items()
    }

    def f(params, x):
        spec = ("NHWC", "HWIO", "NHWC")
        for name in ("a", "b", "c"):
            x = jax.lax.conv_general_dilated(
                x, params[name], (1, 1), "SAME", dimension_numbers=spec
            )
            x = jax.nn.relu(x)
        return x.mean(axis=(1, 2)) @ params["w"]

    return f, params


def child(n: int) -> dict:
    import time

    import numpy as np

    from unlazy.kernels import empirical_operator

    f, params = network()
    x = np.random.default_rng(1).standard_normal((n, 16, 16, 3)).astype(np.float32)
    H = empirical_operator(f, params, x, memory=MEMORY)
    v = np.random.default_rng(2).standard_normal(n * OUTPUTS)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak, VmHWM, starts again from here
    start = time.perf_counter()
    H.matvec(v)
    seconds = time.perf_counter() - start
    parameters = sum(leaf.size for leaf in params.values())
    taken = status("VmHWM") - before
    return {"taken": taken, "parameters": parameters, "seconds": seconds}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    print(json.dumps(child(parser.parse_args().n)))
