# SPDX-License-Identifier: Apache-2.0
"""Workers on this machine: a Dask scheduler in this process, and processes that it alone serves.

All of it listens on the loopback interface. The workers are started as commands of their own, not
by `multiprocessing`, which would run the script that is being run once more in each of them. They
end when this process does, whatever ends it.
"""

import importlib.util
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from importlib.metadata import entry_points
from typing import Any

from unlazy.core.errors import UnlazyError
from unlazy.experiments.leases import Leases

LOOPBACK = "127.0.0.1"
_MOST_DEATHS = 10  # of workers; a cell that kills its worker is given up before
_ENDING = 2.0  # seconds that a worker has to end by itself


class LocalWorkers:
    """So many worker processes, each computing `jobs` cells at a time, inside of `with`."""

    def __init__(self, count: int, jobs: int | None, note: Callable[[str], None]) -> None:
        self.count, self.note, self.deaths = count, note, 0
        self.environment = _environment(count)
        self.jobs = jobs or _room(self.environment)
        self.processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "LocalWorkers":
        from distributed import LocalCluster

        self.cluster: Any = LocalCluster(
            n_workers=0,
            host=LOOPBACK,
            dashboard_address=f"{LOOPBACK}:0",
            silence_logs=logging.CRITICAL,
        )
        if importlib.util.find_spec("bokeh"):  # which draws it
            self.note(f"dashboard: {self.cluster.dashboard_link}")
        self.processes = [self._start() for _ in range(self.count)]
        return self

    def __exit__(self, *_: object) -> None:
        for process in self.processes:
            process.terminate()
        deadline = time.monotonic() + _ENDING
        for process in self.processes:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self.cluster.close()

    @property
    def address(self) -> str:
        """Where the scheduler is."""
        return self.cluster.scheduler_address

    def tend(self) -> None:
        """Start those workers again that have ended."""
        for number, process in enumerate(self.processes):
            if process.poll() is None:
                continue
            self.deaths += 1
            if self.deaths > _MOST_DEATHS:
                raise UnlazyError(f"workers ended {self.deaths} times, at last {_fate(process)}.")
            self.note(f"a worker ended {_fate(process)}; another is started.")
            self.processes[number] = self._start()

    def finish(self, leases: Leases, names: Collection[str]) -> None:
        """Wait for those of the leases that the workers hold."""
        pids = {process.pid for process in self.processes if process.poll() is None}
        while any((leases.owner(name) or {}).get("pid") in pids for name in names):
            time.sleep(0.1)
            pids = {process.pid for process in self.processes if process.poll() is None}

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", "worker", self.address, "--host", LOOPBACK]
        # Even without a dashboard a worker answers to HTTP, by default on every interface.
        options = ["--no-nanny", "--no-dashboard", "--dashboard-address", f"{LOOPBACK}:0"]
        bounds = ["--nthreads", str(self.jobs), "--memory-limit", "0", "--death-timeout", "30"]
        return subprocess.Popen(
            [*command, *options, *bounds],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=2,  # standard output is for results
            start_new_session=True,  # Ctrl-C is for this process, which ends the workers
        )


def _environment(count: int) -> dict[str, str]:
    """What the workers find: our modules, and on a GPU a part of its memory, as it is needed."""
    defaults = {
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / count:.3f}",
        "DASK_LOGGING__DISTRIBUTED": "critical",
    }
    path = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    return defaults | dict(os.environ) | {"PYTHONPATH": path}


def _room(environment: dict[str, str]) -> int:
    """How many cells a worker computes at a time: one, or as many as fit its part of a GPU.

    Another process is asked, in the workers' environment: JAX in this one would take memory.
    """
    if not entry_points(group="jax_plugins"):  # then JAX computes on the processor
        return 1
    code = "import jax; from unlazy.experiments.workers import default_jobs; print(default_jobs())"
    asked = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE)
    last = asked.stdout.split()[-1:]
    return int(last[0]) if last and last[0].isdigit() else 1


def _fate(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"by signal {-code}" if code < 0 else f"with exit code {code}"
