# SPDX-License-Identifier: Apache-2.0
"""Worker processes of this machine; their deaths within runs are in `test_cluster`."""

import dataclasses
import importlib
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from unlazy.core.errors import UnlazyError
from unlazy.experiments import Cell, Store, local_places, run_experiment, run_experiments
from unlazy.experiments.local_places import LocalPlaces, Post, posts
from unlazy.experiments.obtaining import CellError

HERE = Path(__file__).parent
ANY = frozenset({False, True})


@pytest.fixture
def several(toy, monkeypatch):
    """The module of experiments that say where they are computed."""

    monkeypatch.syspath_prepend(str(HERE))
    return importlib.import_module("several")


def accelerator(monkeypatch, cells):
    """Make `posts` believe in an accelerator with room for so many cells per worker."""
    monkeypatch.setattr(local_places, "_has_plugins", lambda: True)
    monkeypatch.setattr(local_places, "_places", lambda _: (True, cells))


def test_processes_divide_the_cores_and_take_any_cell(monkeypatch):
    monkeypatch.setattr(local_places, "_has_plugins", lambda: False)
    monkeypatch.setattr(local_places, "_own_cores", lambda: [0, 1, 2, 5, 6])
    found = posts(2, None, {False})
    assert [post.cores for post in found] == [(0, 1), (2, 5, 6)]
    assert {(post.takes, post.jobs) for post in found} == {(ANY, 1)}
    crowded = posts(6, 3, {True, False})
    assert [(post.cores, post.jobs) for post in crowded] == [((), 3)] * 6


def test_workers_share_the_memory_of_an_accelerator_unless_told_otherwise(monkeypatch):
    accelerator(monkeypatch, 2)
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "true")
    found = posts(3, None, {False})
    assert len(found) == 3
    for post in found:
        assert (post.takes, post.jobs, post.cores) == (frozenset({False}), 2, ())
        assert post.environment["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.285"
        assert post.environment["XLA_PYTHON_CLIENT_PREALLOCATE"] == "true"


def test_beside_an_accelerator_the_processor_has_workers_of_its_own(monkeypatch):
    accelerator(monkeypatch, 2)
    monkeypatch.setattr(local_places, "cores", lambda: 6)
    monkeypatch.setattr(local_places, "_own_cores", lambda: list(range(6)))
    mixed = posts(2, None, {False, True})
    assert [post.takes for post in mixed] == [frozenset({False})] * 2 + [frozenset({True})] * 3
    assert [post.cores for post in mixed[2:]] == [(3,), (4,), (5,)]
    assert {post.environment["JAX_PLATFORMS"] for post in mixed[2:]} == {"cpu"}
    alone = posts(2, None, {True})  # then nothing is left for others
    assert [(post.takes, post.cores) for post in alone] == [
        (frozenset({True}), (0, 1, 2)),
        (frozenset({True}), (3, 4, 5)),
    ]


@pytest.mark.slow
def test_how_many_cells_fit_a_worker_is_asked_of_a_process_like_it(monkeypatch):
    environment = local_places._environment({})
    assert local_places._places(environment) == (False, 1)  # JAX has the processor alone
    statistics = "{'memory_stats': lambda self: {'bytes_limit': 2**36}}"
    fake = (
        f"import jax; jax.devices = lambda: [type('Device', (), {statistics})()]; "
        "jax.default_backend = lambda: 'gpu'"
    )
    asked = subprocess.run
    monkeypatch.setattr(
        *(subprocess, "run"),
        lambda command, **options: asked([*command[:2], f"{fake}; {command[2]}"], **options),
    )
    assert local_places._places(environment) == (True, 4)


def test_workers_that_keep_ending_are_an_error(monkeypatch):
    notes = []
    monkeypatch.setattr(sys, "executable", "false")
    with LocalPlaces([Post(ANY, 1, (), dict(os.environ))], notes.append) as places:
        for _ in range(10):
            places.answers(60.0)
            places.look()
        places.answers(60.0)
        with pytest.raises(UnlazyError, match="ended 11 times, at last with exit code 1"):
            places.look()
    assert notes == ["a worker ended with exit code 1; another is started."] * 10


def test_several_experiments_are_computed_together_by_the_workers_that_take_them(
    several, tmp_path, monkeypatch
):
    plain = posts(1, None, {False})[0]
    split = [plain._replace(takes=frozenset({kind})) for kind in (False, True)]
    monkeypatch.setattr(local_places, "posts", lambda *_: split)
    every = [several.LONG, several.SHORT]
    reports = list(run_experiments(every, "smoke", out=tmp_path / "two", workers=2))
    # The short one waits for no cell of the long one, which another worker computes.
    assert [report.experiment for report in reports] == ["toy/short", "toy/long"]
    assert [report.computed for report in reports] == [2, 3]
    alone = [run_experiment(one, "smoke", out=tmp_path / "one") for one in every]
    for report in alone:
        cells = several.cells_of(report.experiment)
        for cell in cells:
            one, two = (Store(tmp_path / out).read(cell) for out in ("one", "two"))
            assert one.table["value"].tolist() == two.table["value"].tolist()
    again = list(run_experiments(every, "smoke", out=tmp_path / "two", workers=2))
    assert [(report.experiment, report.reused) for report in again] == [
        ("toy/long", 3),
        ("toy/short", 2),
    ]


def test_without_workers_experiments_are_run_in_order(several, tmp_path):
    every = [several.LONG, several.SHORT]
    reports = run_experiments(every, "smoke", out=tmp_path)
    first = next(reports)
    assert first.experiment == "toy/long"
    assert not (tmp_path / "cells/toy/short").exists()
    assert [report.experiment for report in reports] == ["toy/short"]
    assert list(run_experiments([], out=tmp_path)) == []
    assert list(run_experiments([], out=tmp_path, workers=1)) == []


def test_a_worker_has_its_cores_and_what_its_cells_print_is_seen(several, tmp_path, capfd):
    workers = min(2, len(os.sched_getaffinity(0)))
    run_experiment(several.SHORT, "smoke", out=tmp_path, workers=workers)
    for cell in several.cells_of("toy/short"):
        found = set(Store(tmp_path).read(cell).table["cores"].tolist())
        assert found == {len(os.sched_getaffinity(0)) // workers}
    out, err = capfd.readouterr()
    assert (out, err.count("a cell that prints")) == ("", 2)


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("unpicklable", r"failed: RuntimeError: Special: 1 and 2"),
        ("unprintable", r"failed: RuntimeError: it raised an error that cannot be shown"),
        ("leaving", r"failed: RuntimeError: SystemExit: 3"),
        ("dividing", r"failed: ZeroDivisionError: division by zero"),
    ],
)
def test_errors_of_any_kind_come_back(within, several, tmp_path, preset, message):
    with within(60), pytest.raises(CellError, match=message) as caught:
        run_experiment(several.SHORT, preset, out=tmp_path, workers=1)
    if preset == "dividing":  # where, too: a pickle leaves that out
        assert "several.py" in "".join(getattr(caught.value.__cause__, "__notes__", []))


@pytest.mark.parametrize("preset", ["forking", "reading", "pool"])
def test_cells_may_start_processes_and_read_what_is_not_there(within, several, tmp_path, preset):
    with within(60):
        report = run_experiment(several.SHORT, preset, out=tmp_path, workers=1)
    assert report.computed == 1
    assert not psutil.Process().children(recursive=True)


@pytest.mark.slow
@pytest.mark.parametrize("preset", ["forking and dying", "deaf"])
def test_a_cell_that_ends_its_worker_is_given_up(within, several, tmp_path, preset):
    with within(120), pytest.raises(CellError, match="were killed, again and again"):
        run_experiment(several.SHORT, preset, out=tmp_path, workers=1)
    assert not psutil.Process().children(recursive=True)


def test_the_cell_is_blamed_that_kills_its_worker(within, several, tmp_path):
    message = "'cell 0' of toy/long failed: the workers that computed it were killed"
    with within(120), pytest.raises(CellError, match=message):
        run_experiment(several.LONG, "one of many", out=tmp_path, workers=1, jobs=4)
    assert len(list((tmp_path / "cells/toy/long").iterdir())) == 3


def test_a_configuration_that_no_worker_could_read_is_an_error_of_its_cell(
    within, several, tmp_path
):
    class Inner(several.Sleep):
        """Defined where no other process finds it."""

    strange = dataclasses.replace(
        several.SHORT,
        cells=lambda _: [Cell("toy/short", 1, Inner(0, 0.0), 0, "cell 0")],
    )
    several.STRANGE = strange
    with within(60), pytest.raises(CellError, match="'cell 0' of toy/short failed"):
        run_experiment(strange, "smoke", out=tmp_path, workers=1)


def test_claims_that_fail_let_the_cells_at_work_be_finished(several, tmp_path):
    every = [several.UNCLAIMED, several.LONG]
    with pytest.raises(ArithmeticError, match="cannot be checked"):
        list(run_experiments(every, "smoke", out=tmp_path, workers=2))
    assert list((tmp_path / "cells/toy/long").iterdir())
    assert not list((tmp_path / "cells/.leases").iterdir())


def test_different_experiments_of_one_name_are_refused(several, tmp_path):
    other = dataclasses.replace(several.LONG, version=2)
    with pytest.raises(ValueError, match="`experiments` must have different names"):
        run_experiments([several.LONG, other], "smoke", out=tmp_path, workers=1)
