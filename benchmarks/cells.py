# SPDX-License-Identifier: Apache-2.0
"""What the engine itself takes: 1000 cells that compute next to nothing, stored and read back.

Limits are on the seconds that pass. Beside them stand those of this process's processor: where they
differ, the rest went by in waits for the disk, for workers, or for other programs on the machine.
"""

import tempfile
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from distributed import LocalCluster
from matplotlib.figure import Figure

from unlazy.experiments import (
    Cell,
    CellResult,
    Experiment,
    Preset,
    Reporter,
    RunReport,
    run_experiment,
)

CELLS, WORKERS = 1000, 2
LIMITS = {
    "in this process": 20.0,
    "resumed": 2.0,
    f"{WORKERS} workers": 20.0,
    f"{WORKERS} workers of Dask": 40.0,
}


@dataclass(frozen=True)
class Number:
    value: int


def cells(config):
    return [Cell("benchmarks/cells", 1, Number(i), seed=i) for i in range(config.value)]


def run(config, *, seed, progress):
    progress(1, 1)
    return CellResult({"value": np.array([float(config.value)])}, {"x": np.full(10, seed)})


EXPERIMENT = Experiment(
    name="benchmarks/cells",
    title="Cells that compute next to nothing",
    version=1,
    presets={"quick": Preset(Number(CELLS), about="", takes="")},
    cells=cells,
    run=run,
    claims=lambda *_: [],
    plot=lambda *_: Figure(),
)


class Start(Reporter):
    """Notes when a run knows which of its cells are stored."""

    def start(self, name: str, cells: int, stored: int) -> None:
        del name, cells
        self.at, self.processor, self.stored = time.perf_counter(), time.process_time(), stored


def timed(out: str, **where: Any) -> tuple[float, float, RunReport]:
    began, processor = time.perf_counter(), time.process_time()
    report = run_experiment(EXPERIMENT, out=out, **where)
    return time.perf_counter() - began, time.process_time() - processor, report


def main() -> bool:
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        one, two, three = (f"{folder}/{name}" for name in ("one", "two", "three"))
        *found["in this process"], report = timed(one)
        assert (report.computed, report.reused) == (CELLS, 0)
        began, processor, start = time.perf_counter(), time.process_time(), Start()
        run_experiment(EXPERIMENT, out=one, progress=start)
        assert start.stored == CELLS
        found["resumed"] = [start.at - began, start.processor - processor]
        *found[f"{WORKERS} workers"], report = timed(two, workers=WORKERS)
        assert (report.computed, report.reused) == (CELLS, 0)
        options = {"n_workers": WORKERS, "threads_per_worker": 1, "dashboard_address": None}
        cluster: Any = LocalCluster(**options, host="127.0.0.1")
        with cluster:
            address = cluster.scheduler_address
            *found[f"{WORKERS} workers of Dask"], report = timed(three, scheduler=address)
        assert (report.computed, report.reused) == (CELLS, 0)
    print(f"\n{CELLS} cells that compute next to nothing: seconds")
    print(f"{'':17} {'passed':>7} {'processor':>9} {'limit':>6}")
    for name, (passed, processor) in found.items():
        print(f"{name:17} {passed:7.2f} {processor:9.2f} {LIMITS[name]:6.0f}")
    within = all(found[name][0] <= limit for name, limit in LIMITS.items())
    print(f"limits: {'within' if within else 'EXCEEDED'}")
    return within


if __name__ == "__main__":
    raise SystemExit(0 if main() else 1)
