# SPDX-License-Identifier: Apache-2.0
"""First calls, which compile, beside the same calls compiled; each starts with no program at all.

`python -m benchmarks.first_calls --cases relu-3 labels-20000 --device-sizes` runs some of them at
the sizes of an accelerator. One process runs the cases in turn and is ended if a case takes longer
than `--most` seconds; the next case then starts another. What bounds a first call is the number of
programs and how long XLA takes for the largest of them. Neither grows with n or beyond 16 layers,
but for a few small programs that join the layers of a series.
"""

import argparse
import functools
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.timing import describe_machine, first_call
from unlazy.kernels import ntk, operator, relu_gram
from unlazy.labels import complexity

ACTIVATIONS, DEPTHS = ("relu", "erf", "gelu", "tanh"), (1, 3, 10)
ROWS, COLUMNS = 2000, 100
LIMIT = 4.0  # seconds more than the compiled call


class Case(NamedTuple):
    call: Callable[[], Any]
    limit: float


class Times(NamedTuple):
    first: float
    compiled: float
    programs: int


def rows(n: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, COLUMNS))


def label_complexity(n: int, memory: float | None) -> float:
    x = rows(n)
    return complexity(operator(relu_gram, x, memory=memory), np.sign(x[:, :1]))


def names(device_sizes: bool) -> list[str]:
    """The cases, those that say most first."""
    small = [f"{activation}-{depth}" for depth in DEPTHS for activation in ACTIVATIONS]
    if device_sizes:
        return ["large-20000", "labels-20000", "labels-60000", *small]
    return ["large-6000", "labels-6000", *small]


def case(name: str) -> Case:
    kind, size = name.split("-")
    if kind == "large":
        return Case(functools.partial(ntk, rows(int(size)), depth=3), 6.0)
    if kind == "labels":
        n = int(size)
        memory = 2.5 * 8 * n**2 if n < 20000 else None
        call = functools.partial(label_complexity, n, memory)
        return Case(call, 10.0 if n == 60000 else 8.0)
    call = functools.partial(ntk, rows(ROWS), depth=int(size), activation=kind)
    return Case(call, LIMIT)


def measure(call: Callable[[], Any]) -> Times:
    jax.clear_caches()
    programs: list[float] = []

    def count(event: str, duration_secs: float, **kwargs: str | int) -> None:
        del kwargs
        if event.endswith("backend_compile_duration"):
            programs.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(count)
    first = first_call(call)
    made = len(programs)
    return Times(first, min(first_call(call) for _ in range(2)), made)


def serve(pipe: Connection) -> None:
    first_call(lambda: ntk(rows(3)))  # what any first computation takes, such as starting a device
    pipe.send("ready")
    while True:
        pipe.send(measure(case(pipe.recv()).call))


class Worker:
    """A process that measures; a case that takes too long ends it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,), daemon=True)
        self.process.start()
        self.pipe.recv()

    def times(self, name: str, most: float) -> Times | None:
        self.pipe.send(name)
        if self.pipe.poll(most):
            return self.pipe.recv()
        self.end()
        return None

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def main(
    cases: list[str] | None = None, device_sizes: bool | None = None, most: float = 60.0
) -> bool:
    if device_sizes is None:
        device_sizes = jax.default_backend() != "cpu"
    chosen = cases or names(device_sizes)
    print(
        f"\nfirst calls, ntk at n = {ROWS} unless the case says otherwise, d = {COLUMNS}: seconds"
    )
    print(f"{'case':14} {'first':>7} {'compiled':>8} {'programs':>8} {'limit':>6}", flush=True)
    worker, within = Worker(), True
    for name in chosen:
        start = time.perf_counter()
        times, limit = worker.times(name, most), case(name).limit
        if times is None:
            spent = time.perf_counter() - start
            print(f"{name:14} {spent:6.1f}+ {'ended':>8} {'':8} {limit:6.0f}", flush=True)
            worker, within = Worker(), False
            continue
        first, compiled, programs = times
        within &= first - compiled <= limit
        print(f"{name:14} {first:7.2f} {compiled:8.3f} {programs:8} {limit:6.0f}", flush=True)
    worker.end()
    print(f"limits, on what compiling adds: {'within' if within else 'EXCEEDED'}")
    return within


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", nargs="*", help="such as relu-3, large-20000, labels-20000")
    parser.add_argument("--device-sizes", action="store_true", help="as on an accelerator")
    parser.add_argument("--most", type=float, default=20.0, help="seconds for a case")
    given = parser.parse_args()
    print(describe_machine())
    within = main(given.cases, given.device_sizes or None, given.most)
    raise SystemExit(0 if within else 1)
