# SPDX-License-Identifier: Apache-2.0
"""Real schedulers, workers and clients on the loopback interface, and their deaths."""

import asyncio
import importlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import distributed
import psutil
import pytest

from unlazy.core.errors import StoreError
from unlazy.experiments import CellError, Reporter, Store, handing_out, run_experiment

HERE = Path(__file__).parent
PURE = ("cell.json", "table.parquet", "arrays.npz", "claims.json")


@pytest.fixture
def logged(toy, tmp_path, monkeypatch):
    """The module of the logged experiment, which every process here can import."""
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.setenv("LOGGED", str(tmp_path / "log"))
    return importlib.import_module("logged")


@pytest.fixture
def serial(logged, tmp_path):
    """What a run in one process writes; the log is empty afterwards."""
    run_experiment(logged.EXPERIMENT, "quick", out=tmp_path / "serial")
    (tmp_path / "log").unlink()
    return pure_files(tmp_path / "serial")


def pure_files(out):
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.name in PURE and ".partial-" not in str(path)
    }


def times(tmp_path, word):
    """How often each cell began or ended."""
    lines = (tmp_path / "log").read_text().splitlines()
    return Counter(int(line.split()[1]) for line in lines if line.startswith(word))


def log_of(tmp_path):
    path = tmp_path / "log"
    return path.read_text() if path.exists() else ""


def ends_once(tmp_path, cells=8):
    return times(tmp_path, "end") == dict.fromkeys(range(cells), 1)


class Dask:
    """A scheduler and workers as processes of their own."""

    def __init__(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        self.environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.environment["DASK_LOGGING__DISTRIBUTED"] = "critical"
        self.processes = []

    def start(self, *command):
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, command)],
            env=self.environment,
            stderr=subprocess.PIPE if command[0] == "logged" else None,
            text=True,
        )
        self.processes.append(process)
        return process

    def scheduler(self):
        options = ("--host", "127.0.0.1", "--port", self.port, "--no-dashboard")
        return self.start("dask", "scheduler", *options)

    def worker(self, *options):
        common = ("--host", "127.0.0.1", "--no-nanny", "--no-dashboard", "--nthreads", 1)
        return self.start("dask", "worker", self.address, *common, *options)

    def client(self, out):
        return self.start("logged", out, self.address)


@pytest.fixture
def dask(logged):
    dask = Dask()
    yield dask
    for process in dask.processes:
        process.kill()
        process.wait()


def until(condition, seconds=60.0):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def at_work(tmp_path):
    """The cells that were begun and have not ended, each with its worker."""
    lines = [line.split() for line in log_of(tmp_path).splitlines()]
    ended = [rest for word, *rest in lines if word == "end"]
    return [(int(cell), int(pid)) for _, cell, pid in lines if [cell, pid] not in ended]


def listening(process):
    return {
        connection.laddr.ip
        for one in (process, *process.children(recursive=True))
        for connection in one.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }


class Watcher(Reporter):
    """Calls a function when a cell is stored, and keeps the notes."""

    def __init__(self, function=lambda: None):
        self.function, self.notes = function, []

    def note(self, text):
        self.notes.append(text)

    def cell_finished(self, cell, seconds):
        assert seconds >= 0, cell
        self.function()


def test_local_workers_listen_to_nobody_and_one_that_is_killed_is_replaced(
    logged, serial, tmp_path
):
    seen, children, victims = set(), set(), []

    def watch():
        seen.update(listening(psutil.Process()))
        children.update(psutil.Process().children(recursive=True))
        if (begun := at_work(tmp_path)) and not victims:
            victims.append(begun[-1][1])  # it began last, so that its end is furthest
            os.kill(victims[0], signal.SIGKILL)

    watcher = Watcher(watch)
    report = run_experiment(
        logged.EXPERIMENT, "quick", out=tmp_path / "out", workers=2, progress=watcher
    )
    assert len(victims) == 1
    assert report.computed == 8
    assert "a worker ended by signal 9; another is started." in watcher.notes
    assert ends_once(tmp_path)
    assert pure_files(tmp_path / "out") == serial
    assert not seen
    assert len(children) >= 2
    assert not any(child.is_running() for child in children)
    assert not list((tmp_path / "out").rglob(".partial-*"))
    assert not list((tmp_path / "out/cells/.leases").iterdir())


@pytest.mark.slow
def test_a_worker_killed_in_mid_cell_and_a_second_client_cost_nothing(
    logged, serial, dask, tmp_path
):
    out = tmp_path / "out"
    dask.scheduler()
    victim, _ = dask.worker(), dask.worker()
    clients = [dask.client(out) for _ in range(2)]
    until(lambda: f" {victim.pid}\n" in log_of(tmp_path))
    victim.kill()
    errors = [client.communicate()[1] for client in clients]
    assert [client.returncode for client in clients] == [0, 0], errors
    assert sum(int(error.split()[-1]) for error in errors) <= 8
    assert ends_once(tmp_path)
    assert sum(times(tmp_path, "begin").values()) <= 9
    assert pure_files(out) == serial


def test_workers_that_do_not_see_the_folder_send_their_results(
    logged, serial, tmp_path, monkeypatch
):
    monkeypatch.setattr(handing_out, "marker_in", lambda _: tmp_path / "nowhere")
    cell = logged.cells(logged.EXPERIMENT.presets["quick"].config)[3]
    damaged = Store(tmp_path / "out").folder(cell)
    damaged.mkdir(parents=True)
    (damaged / "cell.json").write_text("{}")
    watcher = Watcher()
    report = run_experiment(
        logged.EXPERIMENT, "quick", out=tmp_path / "out", workers=2, progress=watcher
    )
    assert report.computed == 8
    assert ends_once(tmp_path)
    assert pure_files(tmp_path / "out") == serial
    assert ["is damaged" in note for note in watcher.notes] == [False, True]
    assert Store(tmp_path / "out").meta(cell)["jobs"] == 1


def test_errors_of_cells_and_of_the_disk_are_those_of_a_run_in_one_process(logged, tmp_path):
    with pytest.raises(CellError, match=r"'cell 1' of toy/logged failed: ZeroDivisionError: by"):
        run_experiment(logged.EXPERIMENT, "failing", out=tmp_path, workers=2)
    stored = list((tmp_path / "cells/toy/logged").iterdir())
    assert len(stored) == sum(times(tmp_path, "end").values()) >= 1  # what was at work is stored
    with pytest.raises(StoreError, match="no space left on device"):
        run_experiment(logged.EXPERIMENT, "full", out=tmp_path, workers=1)
    assert list((tmp_path / "cells/toy/logged").iterdir()) == stored


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_is_given_up(logged, tmp_path):
    with pytest.raises(CellError, match="workers that computed it were killed"):
        run_experiment(logged.EXPERIMENT, "deadly", out=tmp_path, workers=1)


@pytest.mark.slow
def test_a_worker_may_die_before_its_answer_is_fetched(within, logged, dask, tmp_path, monkeypatch):
    gather, killed = distributed.Client._gather, []

    async def slow(self, *args, **options):
        if not killed:
            killed.append(first)
            first.kill()
            await asyncio.sleep(0.2)
        return await gather(self, *args, **options)

    monkeypatch.setattr(distributed.Client, "_gather", slow)
    dask.scheduler()
    first = dask.worker("--resources", "cells=1")
    threading.Timer(4.0, lambda: dask.worker("--resources", "cells=1")).start()
    with within(60):
        run_experiment(logged.EXPERIMENT, "quick", out=tmp_path, scheduler=dask.address)
    assert killed
    assert times(tmp_path, "end")[0] == 1
    assert set(times(tmp_path, "end")) == set(range(8))


@pytest.mark.slow
def test_the_deaths_of_workers_are_held_against_the_cells_that_they_had_begun(
    logged, serial, dask, tmp_path
):
    workers, killed = [], set()

    def another_cell():
        return {cell for cell, pid in at_work(tmp_path) if pid == workers[-1].pid} - killed

    dask.scheduler()
    client = dask.client(tmp_path / "out")
    while len(killed) < 4:
        workers.append(dask.worker("--resources", "cells=1"))
        until(another_cell)
        killed.update(another_cell())
        workers[-1].kill()
        workers[-1].wait()
    dask.worker("--resources", "cells=1")
    error = client.communicate()[1]
    assert client.returncode == 0, error
    assert pure_files(tmp_path / "out") == serial


@pytest.mark.slow
def test_workers_that_join_late_have_as_many_cells_as_they_have_room_for(
    logged, serial, dask, tmp_path
):
    dask.scheduler()
    client = dask.client(tmp_path / "out")
    assert any("has no workers" in line for line in client.stderr)
    dask.worker("--resources", "cells=1", "--nthreads", 4)
    until(lambda: "begin" in log_of(tmp_path))
    dask.worker("--nthreads", 4)  # it declares none, so that it is given none
    client.communicate()
    assert client.returncode == 0
    words = [line.split()[0] for line in log_of(tmp_path).splitlines()]
    assert words == ["begin", "end"] * 8
    assert pure_files(tmp_path / "out") == serial


@pytest.mark.slow
def test_a_cluster_that_grows_by_need_sees_that_cells_wait(logged, serial, tmp_path):
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "threads_per_worker": 1}
    growing: Any = distributed.LocalCluster(n_workers=0, **options)
    watcher = Watcher()
    with growing:
        growing.adapt(minimum=0, maximum=2, interval="200ms", target_duration="100ms")
        out, address = tmp_path / "out", growing.scheduler_address
        run_experiment(logged.EXPERIMENT, "quick", out=out, scheduler=address, progress=watcher)
        assert f"dashboard: {growing.dashboard_link}" in watcher.notes
    assert len({line.split()[2] for line in log_of(tmp_path).splitlines()}) >= 2
    assert pure_files(out) == serial


@pytest.mark.slow
@pytest.mark.parametrize("shared", [True, False])
def test_a_scheduler_that_is_killed_and_started_again_costs_no_finished_cell(
    logged, serial, dask, tmp_path, shared
):
    dask.environment["SHARED"] = str(shared)
    out = tmp_path / "out"
    scheduler, _ = dask.scheduler(), dask.worker()
    client = dask.client(out)
    first = logged.cells(logged.EXPERIMENT.presets["quick"].config)[0]
    until(lambda: Store(out).has(first) and "end 1" in log_of(tmp_path))
    scheduler.kill()
    scheduler.wait()
    time.sleep(0.5)
    dask.scheduler()
    dask.worker()
    error = client.communicate()[1]
    assert client.returncode == 0, error
    assert "broke; trying again" in error
    # A result on its way to the client is lost with the scheduler; one that is stored is not.
    assert ends_once(tmp_path) if shared else times(tmp_path, "end")[0] == 1
    assert pure_files(out) == serial


@pytest.mark.slow
def test_a_client_that_is_killed_and_started_again_finds_what_the_workers_finished(
    logged, serial, dask, tmp_path
):
    out = tmp_path / "out"
    dask.scheduler()
    dask.worker("--resources", "cells=1")
    client = dask.client(out)
    until(lambda: "begin 2" in log_of(tmp_path))
    client.kill()
    client.communicate()
    again = dask.client(out)
    error = again.communicate()[1]
    assert again.returncode == 0, error
    assert ends_once(tmp_path)  # the cell at work was finished and stored by its worker
    assert pure_files(out) == serial


@pytest.mark.slow
@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_local_workers_end_with_their_client_however_it_ends(logged, tmp_path, sign, code):
    program = (
        "import logged; from unlazy import cli, papers; papers.get = lambda _: logged.EXPERIMENT;"
        f"cli.main(['run', 'toy', '--workers', '2', '--out', {str(tmp_path / 'out')!r}])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    client = subprocess.Popen([sys.executable, "-c", program], env=environment)
    until(lambda: "begin 3" in log_of(tmp_path))  # given when two others were stored
    workers = psutil.Process(client.pid).children(recursive=True)
    assert len(workers) >= 2
    client.send_signal(sign)
    assert client.wait(timeout=30) == code
    _, alive = psutil.wait_procs(workers, timeout=30)
    assert not alive
    report = run_experiment(logged.EXPERIMENT, "quick", out=tmp_path / "out")
    assert report.reused >= 2
    assert ends_once(tmp_path)
