# SPDX-License-Identifier: Apache-2.0
"""Label complexity of MNIST, all digits one-vs-rest, by each way to solve: time, memory, error.

`python -m benchmarks.label_complexity --n 60000 --method float32` runs one of them; the reference
is the same quantity by a float64 factorisation, run afterwards unless `--no-reference`. What bounds
it: n^3/3 operations of the factorisation, and one or a few evaluations of all tiles.
"""

import argparse
import math
import resource
import time

import jax
import jax.random as jr
import numpy as np

from unlazy import data, kernels, labels
from unlazy.core.errors import DataFileError
from unlazy.kernels.solving import METHODS

LIMIT = 1e-6  # relative error against the float64 solve


def load(n: int) -> tuple[np.ndarray, np.ndarray]:
    task = data.load("mnist", n_train=n, n_test=1, key=jr.key(0))
    return np.asarray(task.x_train, np.float64), np.asarray(task.y_train, np.float64)


def peak_memory() -> str:
    """Of the device where it counts, else of this process."""
    statistics = jax.devices()[0].memory_stats()
    if statistics and "peak_bytes_in_use" in statistics:
        return f"{statistics['peak_bytes_in_use'] / 1e9:.2f} GB on the device"
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.2f} GB resident"


def complexity(H: kernels.KernelOperator, y: np.ndarray, method: str) -> float:
    if method == "auto":
        return labels.complexity(H, y)
    return math.sqrt(2 * H.solve(y, method=method).energy / len(y))


def run(x, y, method: str, memory: float | None, repeats: int) -> float:
    H = kernels.operator(kernels.relu_gram, x, memory=memory)
    value, times = math.nan, []
    for _ in range(repeats):
        start = time.perf_counter()
        value = complexity(H, y, method)
        times.append(time.perf_counter() - start)
    spent = ", ".join(f"{t:.2f}" for t in times)
    print(f"{method:20} {value:.12f}   {spent} s   peak {peak_memory()}", flush=True)
    return value


def main(
    n: int = 2000,
    methods: tuple[str, ...] = tuple(METHODS),
    memory: float | None = None,
    repeats: int = 2,
    reference: bool = True,
) -> bool:
    print(f"\nlabel complexity, MNIST, n = {n}, c = 10: value; seconds, first call first; memory")
    try:
        x, y = load(n)
    except DataFileError as error:
        print(f"left out: {error}")
        return True
    values = {method: run(x, y, method, memory, repeats) for method in methods}
    if not reference:
        return True
    exact = values.get("cholesky") or run(x, y, "cholesky", None, 1)
    error = max(abs(value / exact - 1) for value in values.values())
    print(f"relative error {error:.2g}, limit {LIMIT:.0e}")
    return error <= LIMIT


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--n", type=int, default=2000)
    parser.add_argument("--method", choices=["auto", *METHODS], action="append")
    parser.add_argument("--memory", type=float, help="bytes")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--no-reference", action="store_true")
    chosen = parser.parse_args()
    within = main(
        chosen.n,
        tuple(chosen.method or METHODS),
        chosen.memory,
        chosen.repeats,
        not chosen.no_reference,
    )
    raise SystemExit(0 if within else 1)
