# SPDX-License-Identifier: Apache-2.0
"""The client of a cluster and the workers of this machine, as far as they need no scheduler."""

import http.server
import os
import subprocess
import threading
import time

import pytest

from unlazy.core.errors import UnlazyError
from unlazy.experiments import Store, cluster, local_workers
from unlazy.experiments.leases import Leases


def test_a_client_keeps_the_file_by_which_workers_see_its_folder_young(toy, tmp_path, monkeypatch):
    kept = []
    store = Store(tmp_path)
    store.prepare(toy.NAME)

    def compute(run, *_):
        then = time.time() - 90_000
        os.utime(run.marker, (then, then))
        time.sleep(0.3)
        store.prepare(toy.NAME)  # as another run does
        kept.append(run.marker.exists())

    monkeypatch.setattr(cluster.ClusterRun, "_compute", compute)
    with Leases(tmp_path / "leases", expires=0.6) as leases:
        options = {"force": False, "arrived": print, "note": print}
        cluster.ClusterRun(toy.EXPERIMENT, store, leases, **options).results([], "", 1, 1)
    assert kept == [True]
    assert not list((tmp_path / "cells").glob(".partial-*"))


@pytest.mark.parametrize("status", [200, 404])
def test_the_dashboard_of_a_scheduler_is_told_if_there_is_one(status):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, format, *args):
            pass

    class Client:
        @property
        def dashboard_link(self):
            return f"http://127.0.0.1:{server.server_address[1]}/status"

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.handle_request).start()
        found = cluster._dashboard(Client())
    assert found == (Client().dashboard_link if status == 200 else None)


def test_a_scheduler_that_names_no_dashboard_has_none():
    class Client:
        @property
        def dashboard_link(self):
            raise KeyError("dashboard")

    assert cluster._dashboard(Client()) is None


def test_workers_that_keep_ending_are_an_error(monkeypatch):
    notes = []
    workers = local_workers.LocalWorkers(1, 1, notes.append)
    monkeypatch.setattr(workers, "_start", lambda: subprocess.Popen(["false"]))
    workers.processes = [workers._start()]
    for _ in range(10):
        workers.processes[0].wait()
        workers.tend()
    workers.processes[0].wait()
    with pytest.raises(UnlazyError, match="workers ended 11 times, at last with exit code 1"):
        workers.tend()
    assert notes == ["a worker ended with exit code 1; another is started."] * 10


def test_workers_share_the_memory_of_an_accelerator_unless_told_otherwise(monkeypatch):
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    environment = local_workers._environment(3)
    assert environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.300"
    assert environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


@pytest.mark.slow
def test_how_many_cells_fit_a_worker_is_asked_of_a_process_like_it(monkeypatch):
    assert local_workers._room(local_workers._environment(1)) == 1  # JAX has the processor alone
    monkeypatch.setattr(local_workers, "entry_points", lambda group: [group])
    assert local_workers._room(local_workers._environment(1)) == 1
    statistics = "{'memory_stats': lambda self: {'bytes_limit': 2**36}}"
    fake = f"import jax; jax.devices = lambda: [type('Device', (), {statistics})()]"
    asked = subprocess.run
    monkeypatch.setattr(
        *(subprocess, "run"),
        lambda command, **options: asked([*command[:2], f"{fake}; {command[2]}"], **options),
    )
    assert local_workers._room(local_workers._environment(1)) == 4
