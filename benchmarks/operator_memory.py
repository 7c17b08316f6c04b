# SPDX-License-Identifier: Apache-2.0
"""Memory that a solve takes beyond the samples, against the `memory` that it was given.

Each case runs in a process of its own. A solve of a few tiles of the same shape goes first, so that
compiled programs do not count; then the peak of the resident memory is set back and read after.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

LIMIT = 1.25
MEGABYTE = 10**6
# Sizes at which the budget binds: the matrix just fits, or just does not.
CASES = [
    (method, budget)
    for method in ("cholesky", "float32", "conjugate-gradients")
    for budget in (200, 300, 600)
]


def main() -> bool:
    print(f"\noperator.solve: peak of resident memory over `memory`, at most {LIMIT}")
    within = True
    for method, budget in CASES:
        found = measure(method, budget * MEGABYTE)
        share = found["taken"] / (budget * MEGABYTE)
        within &= share <= LIMIT
        print(
            f"{method:20} {budget:5} MB  n = {found['n']:6}  took {found['taken'] / MEGABYTE:6.0f} "
            f"MB, {share:.2f} times  {'' if share <= LIMIT else 'EXCEEDED'}",
            flush=True,
        )
    return within


def measure(method: str, memory: int) -> dict:
    """The bytes that the solve takes, in a new process."""
    command = [sys.executable, "-m", "benchmarks.operator_memory", method, str(memory)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(found.stdout.splitlines()[-1])


def largest(method: str, memory: int) -> int:
    """Samples whose matrix just fits; for conjugate gradients, does not fit in float32."""
    room = 0.87 * memory
    n = int((room / {"cholesky": 8, "float32": 4, "conjugate-gradients": 4}[method]) ** 0.5)
    return n * 11 // 10 if method == "conjugate-gradients" else n


def child(method: str, memory: int) -> dict:
    import numpy as np

    from unlazy.kernels import operator, relu_gram

    n = largest(method, memory)
    x = np.random.default_rng(0).standard_normal((n, 20))
    y = np.random.default_rng(1).standard_normal((n, 3))
    H = operator(relu_gram, x, memory=memory)
    spans = H.tiles.spans()
    few = spans[1].stop + spans[-1].stop - spans[-1].start  # whole tiles, and the shorter last one
    options = {"ridge": 10.0, "tolerance": 1e-3, "method": method}  # few iterations: they repeat
    H.take(slice(0, few)).solve(y[:few], **options)
    H.diagonal()
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak, VmHWM, starts again from here
    solution = H.solve(y, **options)
    assert solution.converged
    return {"n": n, "taken": status("VmHWM") - before}


def status(name: str) -> int:
    """A line of Linux's account of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("method")
    parser.add_argument("memory", type=int)
    options = parser.parse_args()
    print(json.dumps(child(options.method, options.memory)))
