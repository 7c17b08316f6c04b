# SPDX-License-Identifier: Apache-2.0
"""The client of a cluster, as far as it needs no scheduler."""

import http.server
import os
import threading
import time

import pytest

from unlazy.experiments import Store, cluster
from unlazy.experiments.handing_out import HandOut
from unlazy.experiments.leases import Leases
from unlazy.experiments.local_places import LocalPlaces


def test_a_client_keeps_the_file_by_which_workers_see_its_folder_young(toy, tmp_path, monkeypatch):
    kept = []
    store = Store(tmp_path)
    cell = toy.cells(toy.EXPERIMENT.presets["smoke"].config)[0]
    store.prepare(toy.NAME)

    def compute(run, *_):
        then = time.time() - 90_000
        os.utime(run.marker, (then, then))
        time.sleep(0.3)
        store.prepare(toy.NAME)  # as another run does
        kept.append(run.marker.exists())
        run.found.add(cell)
        yield from ()

    monkeypatch.setattr(HandOut, "_hand_out", compute)
    with Leases(tmp_path / "leases", expires=0.6) as leases:
        run = HandOut([toy.EXPERIMENT], store, leases, force=False, note=print)
        assert not list(run.compute([cell], lambda: LocalPlaces([], print)))
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
