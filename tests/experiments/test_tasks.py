# SPDX-License-Identifier: Apache-2.0
import contextlib
import dataclasses
import importlib
import sys
import time

import dask.config
import numpy as np
import pytest

from unlazy import papers
from unlazy.core.errors import ArgumentsError, UnlazyError
from unlazy.experiments import CellResult, Store, cluster, experiment, run_experiment
from unlazy.experiments.tasks import Task, marker_in, perform, reference


@pytest.fixture
def task(toy, tmp_path):
    cell = toy.cells(toy.EXPERIMENT.presets["smoke"].config)[0]
    Store(tmp_path).prepare(toy.NAME)
    marker = str(marker_in(tmp_path))
    return Task("toy:EXPERIMENT", cell, str(tmp_path), marker, "run", force=False, leased=False)


def test_a_worker_stores_the_cell_and_computes_it_once(task, tmp_path):
    assert perform(task, jobs=2)[:2] == ("stored", True)
    assert perform(task._replace(run="other"), jobs=2)[:2] == ("stored", False)
    assert Store(tmp_path).meta(task.cell)["jobs"] == 2


def test_a_worker_computes_a_stored_cell_again_once_for_a_run_with_force(
    task, toy, tmp_path, monkeypatch
):
    computed = []

    def run(config, *, seed, progress):
        computed.append(config)
        return toy.run(config, seed=seed, progress=progress)

    monkeypatch.setattr(toy, "EXPERIMENT", dataclasses.replace(toy.EXPERIMENT, run=run))
    perform(task, jobs=1)
    forced = task._replace(run="another run", force=True)
    # Its first answer may have been lost with its worker.
    assert perform(forced, jobs=1)[:2] == perform(forced, jobs=1)[:2] == ("stored", True)
    assert len(computed) == 2
    (Store(tmp_path).folder(task.cell) / "table.parquet").write_bytes(b"damaged")
    perform(forced, jobs=1)
    assert len(computed) == 3
    Store(tmp_path).read(task.cell)


def test_a_worker_leaves_a_cell_that_another_run_computes(task, tmp_path):
    with Store(tmp_path).leases() as leases, leases.holding(task.cell.digest):
        assert perform(task, jobs=1).kind == "busy"
    assert not Store(tmp_path).has(task.cell)


def test_a_worker_without_the_folder_says_so_and_sends_the_result_when_told_to(task, tmp_path):
    elsewhere = task._replace(root="/nowhere", marker="/nowhere/marker")
    assert perform(elsewhere, jobs=1).kind == "unshared"
    answer = perform(elsewhere._replace(leased=True), jobs=1)
    perform(task, jobs=1)
    assert isinstance(answer.result, CellResult)
    stored = Store(tmp_path).read(task.cell)
    assert np.array_equal(answer.result.table["mean"], stored.table["mean"])
    assert answer.meta is not None
    assert answer.meta["jobs"] == 1


def test_a_worker_with_other_code_is_found(task, toy, monkeypatch):
    with pytest.raises(UnlazyError, match="a worker cannot import nothing:EXPERIMENT"):
        perform(task._replace(experiment="nothing:EXPERIMENT"), jobs=1)
    monkeypatch.setattr(toy, "EXPERIMENT", dataclasses.replace(toy.EXPERIMENT, version=2))
    with pytest.raises(UnlazyError, match="has version 2 of toy/figure1, this run version 3"):
        perform(task, jobs=1)


def test_an_experiment_is_found_by_its_module(toy, monkeypatch):
    assert reference(toy.EXPERIMENT) == "toy:EXPERIMENT"
    figure = papers.get("arora2019/figure1")
    assert reference(figure) == "unlazy.papers.arora2019.figures.figure1:EXPERIMENT"
    with pytest.raises(UnlazyError, match="`experiment` must be a global name of a module"):
        reference(dataclasses.replace(toy.EXPERIMENT))
    for name in papers.names():  # two share all of their functions
        module, _, attribute = reference(papers.get(name)).partition(":")
        assert getattr(importlib.import_module(module), attribute) is papers.get(name)
    monkeypatch.setitem(sys.modules, "__main__", toy)
    monkeypatch.delitem(sys.modules, "toy")
    with pytest.raises(UnlazyError, match="not in the script that is run"):
        reference(toy.EXPERIMENT)


def test_without_dask_the_extra_is_named(toy, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UnlazyError, match=r"pip install 'unlazy\[dask\]'"):
        cluster.check_dask()
    with pytest.raises(UnlazyError, match=r"pip install 'unlazy\[dask\]'"):
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, scheduler="tcp://127.0.0.1:1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"workers": 0}, "`workers` must be an integer >= 1, got workers=0"),
        ({"workers": 2, "scheduler": "tcp://a:1"}, "`workers` must be left out with a scheduler"),
        ({"jobs": 2, "scheduler": "tcp://a:1"}, "`jobs` must be left out with a scheduler"),
        ({"scheduler": "host"}, "`scheduler` must be an address such as tcp://host:8786"),
        (
            {"scheduler": "http://a:1"},
            "`scheduler` must be an address such as .*got .*'http://a:1'",
        ),
    ],
)
def test_where_to_compute_is_checked_first(toy, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path / "out", **arguments)
    assert not (tmp_path / "out").exists()


def test_a_scheduler_with_tls_needs_certificates(toy, tmp_path):
    began, address = time.monotonic(), "tls://127.0.0.1:1"
    with pytest.raises(ArgumentsError, match="`scheduler` must be an address without TLS where"):
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, scheduler=address)
    names = ("ca-file", "client.cert")
    missing = {f"distributed.comm.tls.{name}": str(tmp_path / "none.pem") for name in names}
    with dask.config.set(missing), pytest.raises(UnlazyError, match="No such file or directory"):
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, scheduler=address)
    assert time.monotonic() - began < 10


def test_cells_for_the_processor_are_computed_in_its_scope(toy, tmp_path, monkeypatch):
    """Here as by a worker, and none of another experiment."""
    scopes = []

    @contextlib.contextmanager
    def on_host():
        scopes.append("open")
        yield
        scopes.append("closed")

    def run(config, *, seed, progress):
        scopes.append("run")
        return toy.run(config, seed=seed, progress=progress)

    monkeypatch.setattr(experiment, "on_host", on_host)
    for place, on_processor in enumerate((False, True)):
        chosen = dataclasses.replace(toy.EXPERIMENT, run=run, on_processor=on_processor)
        monkeypatch.setattr(toy, "EXPERIMENT", chosen)
        run_experiment(chosen, "smoke", out=tmp_path / f"{place}")
        cell = chosen.cells(chosen.presets["smoke"].config)[0]
        root = tmp_path / f"by a worker {place}"
        Store(root).prepare(toy.NAME)
        (root / "marker").touch()
        perform(
            Task("toy:EXPERIMENT", cell, str(root), str(root / "marker"), "run", False, False),
            jobs=1,
        )
        one = ["open", "run", "closed"] if on_processor else ["run"]
        assert scopes == one * 4  # three cells here, one by a worker
        scopes.clear()
