# SPDX-License-Identifier: Apache-2.0
"""What every implementation's process does: read inputs, time the calls, write the answer.

Runs in each of the environments, so it uses nothing but numpy and the standard library.
"""

import argparse
import json
import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], Any]  # returns once the answer is there, in any type that numpy can read


class Task(NamedTuple):
    case: str
    variant: str
    inputs: Mapping[str, np.ndarray]


def serve(prepare: Callable[[Task], Call], versions: Mapping[str, str]) -> None:
    """Time what `prepare` makes of the task on the command line; one JSON line on the output."""
    options = _options()
    with np.load(options.inputs) as stored:
        inputs = {name: stored[name] for name in stored.files}
    call = prepare(Task(options.case, options.variant, inputs))
    before = peak_memory()
    start = time.perf_counter()
    value = call()
    first = time.perf_counter() - start
    times: list[float] = [] if options.calls else [first]  # where one call takes minutes
    for _ in range(options.calls):
        value = None  # freed first, or each call would find one answer more in memory
        start = time.perf_counter()
        value = call()
        times.append(time.perf_counter() - start)
    report = {
        "first": first,
        "median": statistics.median(times),
        "best": min(times),
        "peak_bytes": peak_memory(),
        "peak_bytes_before": before,
        "versions": {"python": sys.version.split()[0], "numpy": np.__version__, **versions},
    }
    np.savez(options.output, value=np.asarray(value))
    print(json.dumps(report))


def peak_memory() -> int:
    """The most bytes that this process has held in memory at once."""
    # Linux lets ru_maxrss start at what the parent held when it forked; VmHWM starts afresh.
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        peaks = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        if peaks:
            return int(peaks[0]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True)
    parser.add_argument("--variant", required=True)
    parser.add_argument("--inputs", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--calls", type=int, required=True)
    return parser.parse_args()
