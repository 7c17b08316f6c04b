# SPDX-License-Identifier: Apache-2.0
"""Kernel regression and label complexity on a million deformed images of MNIST, on one GPU.

`python -m benchmarks.million --n 1000000 --parts product fit labels` prints the time of a product
beside its limit, the test error after each iteration, and bounds of the label complexity; `exact`
solves for the first 60000 images both ways. A part that is killed goes on from its checkpoint in
`--out`. What bounds it: products of rows in bfloat16, 4 n^2 d of them, of which symmetry leaves
half, and some six passes of the memory over every entry of the kernel.
"""

import argparse
import functools
import json
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from benchmarks.mnist_classifiers import peak_memory
from benchmarks.timing import describe_machine
from unlazy import data
from unlazy.kernels import KernelRegression, LargeKernelRegression, ntk
from unlazy.kernels.streaming import streamed
from unlazy.labels import energy_bounds

KERNEL = functools.partial(ntk, depth=3)
BF16 = 790e12  # operations per second that an H200 makes of bfloat16 products


def samples(n: int):
    task = data.load("mnist", n_train=60000, key=jr.key(0))
    began = time.perf_counter()
    x, y = data.deformed(task.x_train, task.y_train, n, shape=(28, 28), key=jr.key(1))
    norms = jnp.linalg.norm(x, axis=1, keepdims=True)
    x = jax.block_until_ready(x / norms)
    print(f"{n} samples drawn in {time.perf_counter() - began:.1f} s", flush=True)
    return (x, np.asarray(y)), (task.x_test, np.asarray(task.y_test))


def odd_or_even(y: np.ndarray) -> np.ndarray:
    return np.where(np.argmax(y, axis=1) % 2, 1.0, -1.0)


def product(train, _test, _out) -> dict:
    """The time of one product, beside that of its products of rows at the device's best."""
    x, _ = train
    gram = streamed(KERNEL, x)
    V = np.random.default_rng(0).normal(size=(len(x), 10))
    times = []
    for _ in range(3):
        began = time.perf_counter()
        jax.block_until_ready(gram.matmat(V))
        times.append(time.perf_counter() - began)
    limit = 4 * len(x) ** 2 * x.shape[1] / BF16  # four products of halves, half of the entries
    return {"first": times[0], "seconds": min(times[1:]), "limit": limit}


def fit(train, test, out, iterations: int) -> dict:
    """The test error where it stops falling; the first iteration holds the set-up."""
    began = time.perf_counter()
    fitted = LargeKernelRegression(KERNEL).fit(
        *train,
        validation=test,
        metric="classes",
        patience=10,
        max_iterations=iterations,
        checkpoint=out / f"fit-{len(train[0])}",
        progress=timed_bar(),
    )
    return {
        "seconds": time.perf_counter() - began,
        "iterations": len(fitted.errors),
        "best_after": fitted.iterations,
        "test_error": float(np.min(fitted.errors)),
        "errors": fitted.errors.tolist(),
        "residuals": fitted.residuals.tolist(),
        "seconds_of_iterations": fitted.seconds.tolist(),
    }


def labels(train, _test, out) -> dict:
    """Bounds of the label complexity of odd and even digits, one percent apart."""
    x, y = train
    began = time.perf_counter()
    folder = out / f"labels-{len(x)}"
    found = energy_bounds(KERNEL, x, odd_or_even(y), checkpoint=folder, progress=timed_bar())
    return {
        "seconds": time.perf_counter() - began,
        "iterations": found.iterations,
        "energy": [found.lower, found.upper],
        "complexity": found.complexity,
        "smallest_eigenvalue": found.smallest_eigenvalue,
    }


def exact(train, test, out) -> dict:
    """The same 60000 samples by a factorisation in float64."""
    x, y = train[0][:60000], train[1][:60000]
    points, truth = test
    began = time.perf_counter()
    both = np.column_stack([y, odd_or_even(y)])
    solved = KernelRegression(KERNEL).fit(np.asarray(x), both)
    outputs = solved.predict(np.asarray(points))
    seconds = time.perf_counter() - began
    energy = float(both[:, -1] @ solved.solution.value[:, -1])
    began = time.perf_counter()
    large = LargeKernelRegression(KERNEL).fit(x, y, tolerance=1e-3)
    found = large.predict(points)
    large_seconds = time.perf_counter() - began
    bounds = energy_bounds(KERNEL, x, odd_or_even(y), checkpoint=out / "labels-60000")
    return {
        "exact_seconds": seconds,
        "exact_error": share_wrong(outputs[:, :-1], truth),
        "large_seconds": large_seconds,
        "large_iterations": large.iterations,
        "large_error": share_wrong(found, truth),
        "largest_difference": float(np.max(np.abs(found - outputs[:, :-1]))),
        "exact_complexity": (2 * energy / 60000) ** 0.5,
        "bounds": bounds.complexity,
        "smallest_eigenvalue": bounds.smallest_eigenvalue,
    }


def share_wrong(outputs: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(np.argmax(outputs, axis=1) != np.argmax(truth, axis=1)))


def timed_bar():
    began, told = time.perf_counter(), [0.0]

    def progress(done: int, expected: int) -> None:
        now = time.perf_counter() - began
        if now - told[0] > 20:
            told[0] = now
            left = now * (expected - done) / max(done, 1)
            print(f"  {now:.0f} s, {done} of {expected} tiles, {left:.0f} s left", flush=True)

    return progress


PARTS = {"product": product, "fit": fit, "labels": labels, "exact": exact}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1_000_000)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--iterations", type=int, default=40, help="at most, of the fit")
    parser.add_argument("--out", type=Path, default=Path("runs/million"))
    arguments = parser.parse_args()
    print(describe_machine(), flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    train, test = samples(arguments.n)
    parts = PARTS | {"fit": functools.partial(fit, iterations=arguments.iterations)}
    for name in arguments.parts:
        found = parts[name](train, test, arguments.out)
        found["peak_memory"] = peak_memory()
        print(name, json.dumps(found), flush=True)
        (arguments.out / f"{name}-{arguments.n}.json").write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
