# SPDX-License-Identifier: Apache-2.0
import dataclasses
import errno
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from unlazy.core.errors import StoreError, UnknownNameError, UnlazyError
from unlazy.experiments import Cell, CellError, CellResult, Reporter, Store, run_experiment

TOY = Path(__file__).parent / "toy.py"
PURE = ("cell.json", "table.parquet", "arrays.npz", "claims.json", "figure.png", "figure.svg")


def pure_files(out: Path):
    """Every file that depends on the experiment alone, by its path."""
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        # What a run leaves that is killed within a write stays for a minute.
        if path.name in PURE and not path.parent.name.startswith(".partial-")
    }


def assert_every_cell_is_whole(toy, out: Path):
    """Each folder that can be seen is a cell that can be read."""
    store, root = Store(out), out / "cells" / toy.NAME
    cells = {store.folder(cell).name: cell for cell in toy.cells(quick(toy))}
    for folder in root.iterdir() if root.exists() else []:
        store.read(cells[folder.name])
        store.meta(cells[folder.name])


def quick(toy):
    return toy.EXPERIMENT.presets["quick"].config


def refusing(toy):
    """The toy, but computing a cell is an error."""

    def run(config, *, seed, progress):
        raise AssertionError((config, seed, progress))

    return dataclasses.replace(toy.EXPERIMENT, run=run)


def start_toy(out: Path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, str(TOY), str(out)], env=environment, stderr=subprocess.PIPE, text=True
    )


def until_stopped(progress):
    for _ in range(30_000):
        progress(1, 2)
        time.sleep(0.001)
    raise AssertionError("it was never stopped")


@pytest.fixture(scope="module")
def reference(toy, tmp_path_factory):
    """What an uninterrupted run of the toy at its quick preset writes."""
    out = tmp_path_factory.mktemp("reference")
    report = run_experiment(toy.EXPERIMENT, "quick", out=out)
    assert (report.computed, report.reused) == (12, 0)
    return pure_files(out)


def test_a_run_writes_its_figure_and_claims_and_reports_them(toy, tmp_path):
    report = run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    folder = tmp_path / "toy" / "figure1" / "smoke"
    assert sorted(p.name for p in folder.iterdir()) == ["claims.json", "figure.png", "figure.svg"]
    assert report.figures == (folder / "figure.png", folder / "figure.svg")
    assert (report.computed, report.reused, report.ok) == (3, 0, True)
    assert report.notes == ("few points",)
    written = json.loads(report.claims_file.read_text())
    assert written["claims"] == report.to_dict()["claims"] == [c.to_dict() for c in report.claims]
    assert written["cells"] == [c.digest for c in toy.cells(toy.EXPERIMENT.presets["smoke"].config)]
    json.dumps(report.to_dict(), allow_nan=False)


def test_what_varies_is_recorded_beside_each_cell(toy, tmp_path):
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    meta = Store(tmp_path).meta(toy.cells(toy.EXPERIMENT.presets["smoke"].config)[0])
    assert set(meta) == {"seconds", "jobs", "finished", "device", "versions"}
    assert meta["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))


def test_a_figure_is_redrawn_from_the_store_without_computing(toy, tmp_path):
    report = run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    before = pure_files(tmp_path)
    for path in report.figures:
        path.unlink()
    again = run_experiment(refusing(toy), "smoke", out=tmp_path)
    assert (again.computed, again.reused) == (0, 3)
    assert pure_files(tmp_path) == before


def test_force_computes_again_and_gives_the_same_files(toy, tmp_path):
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    before = pure_files(tmp_path)
    assert run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, force=True).computed == 3
    assert pure_files(tmp_path) == before
    with pytest.raises(CellError):
        run_experiment(refusing(toy), "smoke", out=tmp_path, force=True)
    assert pure_files(tmp_path) == before


def test_force_puts_the_new_result_in_place_of_the_old(toy, tmp_path):
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)

    def run(config, *, seed, progress):
        result = toy.run(config, seed=seed, progress=progress)
        return CellResult({**result.table, "mean": np.zeros(10)})

    changed = dataclasses.replace(toy.EXPERIMENT, run=run)
    run_experiment(changed, "smoke", out=tmp_path, force=True)
    for cell in toy.cells(toy.EXPERIMENT.presets["smoke"].config):
        assert not Store(tmp_path).read(cell).table["mean"].any()


def test_a_cell_that_another_run_stores_meanwhile_is_not_computed_again(toy, tmp_path):
    cells = toy.cells(toy.EXPERIMENT.presets["smoke"].config)

    def run(config, *, seed, progress):
        result = toy.run(config, seed=seed, progress=progress)
        if config.index == 0:
            other = toy.run(cells[1].config, seed=cells[1].seed, progress=progress)
            Store(tmp_path).write(cells[1], other, {})
        return result

    report = run_experiment(dataclasses.replace(toy.EXPERIMENT, run=run), "smoke", out=tmp_path)
    assert (report.computed, report.reused) == (2, 1)


def test_another_version_does_not_reuse_the_old_cells(toy, tmp_path):
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)

    def cells(config):
        return [dataclasses.replace(cell, version=4) for cell in toy.cells(config)]

    newer = dataclasses.replace(toy.EXPERIMENT, version=4, cells=cells)
    assert run_experiment(newer, "smoke", out=tmp_path).computed == 3


def test_cells_of_another_experiment_are_refused(toy, tmp_path):
    other = dataclasses.replace(toy.EXPERIMENT, version=4)
    with pytest.raises(ValueError, match="`cells` must give cells of 'toy/figure1' version 4"):
        run_experiment(other, "smoke", out=tmp_path)


def test_a_damaged_cell_is_computed_again_and_told(toy, tmp_path):
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    before = pure_files(tmp_path)
    cell = toy.cells(toy.EXPERIMENT.presets["smoke"].config)[1]
    table = Store(tmp_path).folder(cell) / "table.parquet"
    table.write_bytes(table.read_bytes()[:100])
    report = run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    assert (report.computed, report.reused) == (1, 2)
    assert any(cell.digest[:20] in note and "computed again" in note for note in report.notes)
    assert pure_files(tmp_path) == before


def test_a_cell_that_fails_keeps_those_before_it_and_a_second_run_resumes(toy, tmp_path):
    def run(config, *, seed, progress):
        if config.index == 2:
            raise ZeroDivisionError("by zero.")
        return toy.run(config, seed=seed, progress=progress)

    failing = dataclasses.replace(toy.EXPERIMENT, run=run)
    with pytest.raises(CellError, match=r"'cell 2' of toy/figure1 failed: ZeroDivisionError: by"):
        run_experiment(failing, "smoke", out=tmp_path)
    report = run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    assert (report.computed, report.reused) == (1, 2)


def test_an_unknown_preset_suggests_the_nearest(toy, tmp_path):
    with pytest.raises(UnknownNameError, match="Did you mean 'smoke'"):
        run_experiment(toy.EXPERIMENT, "smokee", out=tmp_path)


def test_an_unwritable_folder_is_an_error_before_anything_is_computed(toy, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="is a file"):
        run_experiment(refusing(toy), "smoke", out=tmp_path / "file" / "runs")


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("nothing")])
def test_a_figure_without_a_folder_is_an_error_before_anything_is_computed(toy, tmp_path, make):
    (tmp_path / "toy/figure1").mkdir(parents=True)
    make(tmp_path / "toy/figure1/smoke")
    with pytest.raises(StoreError, match=r"smoke' is a (fifo|link to nothing)"):
        run_experiment(refusing(toy), "smoke", out=tmp_path)


def test_a_fifo_in_a_cell_is_told_once_and_the_cell_computed_again(toy, tmp_path):
    run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    table = sorted(tmp_path.rglob("table.parquet"))[1]
    table.unlink()
    os.mkfifo(table)
    report = run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    assert (report.computed, report.reused) == (1, 2)
    assert sum("table.parquet is a fifo" in note for note in report.notes) == 1
    assert run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path).notes == ("few points",)


def test_a_disk_that_fills_up_midway_keeps_what_is_stored(toy, tmp_path, monkeypatch):
    def run(config, *, seed, progress):
        if config.index == 2:
            monkeypatch.setattr(os, "fsync", full)
        return toy.run(config, seed=seed, progress=progress)

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StoreError, match="no space left on device"):
        run_experiment(dataclasses.replace(toy.EXPERIMENT, run=run), "smoke", out=tmp_path)
    monkeypatch.undo()
    assert not list(tmp_path.rglob(".partial-*"))
    report = run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path)
    assert (report.computed, report.reused) == (1, 2)


def test_an_interrupt_leaves_nothing_half_written_and_closes_the_reporter(toy, tmp_path):
    class Recorder(Reporter):
        closed = False

        def close(self):
            self.closed = True

    def run(config, *, seed, progress):
        if config.index == 1:
            raise KeyboardInterrupt
        return toy.run(config, seed=seed, progress=progress)

    recorder = Recorder()
    with pytest.raises(KeyboardInterrupt):
        run_experiment(
            dataclasses.replace(toy.EXPERIMENT, run=run), "smoke", out=tmp_path, progress=recorder
        )
    assert recorder.closed
    assert not list(tmp_path.rglob(".partial-*"))
    assert run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path).reused == 1


def test_several_cells_at_a_time_write_the_same_files(toy, tmp_path, reference):
    report = run_experiment(toy.EXPERIMENT, "quick", out=tmp_path, jobs=3)
    assert (report.computed, report.reused) == (12, 0)
    assert pure_files(tmp_path) == reference
    assert Store(tmp_path).meta(toy.cells(quick(toy))[0])["jobs"] == 3


def test_as_many_cells_as_asked_for_are_at_work_together(toy, tmp_path):
    meeting = threading.Barrier(3)

    def run(config, *, seed, progress):
        meeting.wait(timeout=30)  # passes when all three are here
        return toy.run(config, seed=seed, progress=progress)

    experiment = dataclasses.replace(toy.EXPERIMENT, run=run)
    assert run_experiment(experiment, "smoke", out=tmp_path, jobs=3).computed == 3


def test_after_a_failure_cells_at_work_are_stored_and_no_further_ones_begun(toy, tmp_path):
    begun, failed = [], threading.Event()

    def run(config, *, seed, progress):
        begun.append(config.index)
        if config.index == 1:
            failed.set()
            raise ZeroDivisionError("by zero.")
        failed.wait(timeout=30)
        time.sleep(0.2)  # in which the others see the failure
        return toy.run(config, seed=seed, progress=progress)

    failing = dataclasses.replace(toy.EXPERIMENT, run=run)
    notes = []

    class Recorder(Reporter):
        def note(self, text):
            notes.append(text)

    with pytest.raises(CellError, match="'cell 1' of toy/figure1 failed"):
        run_experiment(failing, "quick", out=tmp_path, jobs=2, progress=Recorder())
    assert notes[-1] == "the cell 'cell 1' failed; those at work are finished first."
    assert 0 in begun
    assert len(begun) < 5
    assert run_experiment(toy.EXPERIMENT, "quick", out=tmp_path).reused == len(begun) - 1


@pytest.mark.parametrize("after_a_failure", [False, True])
def test_an_interrupt_stops_the_cells_at_work(toy, tmp_path, after_a_failure):
    second, ended, main = threading.Event(), [], threading.get_ident()

    def run(config, *, seed, progress):
        if config.index == 1:
            second.set()
            if after_a_failure:
                raise ZeroDivisionError
        if config.index == 0:
            second.wait(timeout=30)
            time.sleep(0.2)  # until the main thread waits for the cells at work
            signal.pthread_kill(main, signal.SIGINT)
        try:
            return until_stopped(progress)
        finally:
            ended.append(config.index)

    endless = dataclasses.replace(toy.EXPERIMENT, run=run)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_experiment(endless, "quick", out=tmp_path, jobs=2)
    finally:
        signal.signal(signal.SIGINT, before)
    assert 0 in ended
    assert len(ended) <= 2


@pytest.mark.parametrize("jobs", [0, -1, True, 1.5, "2"])
def test_a_number_of_jobs_that_is_none_is_an_error(toy, tmp_path, jobs, no_shape_checker):
    with pytest.raises(ValueError, match=f"`jobs` must be an integer >= 1, got jobs={jobs!r}"):
        run_experiment(toy.EXPERIMENT, "smoke", out=tmp_path, jobs=jobs)


def read_until(child, cells):
    """Read what a run prints until it has stored so many cells; False if it ended before."""
    assert child.stderr is not None
    while cells and (line := child.stderr.readline()):
        cells -= line.startswith("[")
    return cells == 0


def test_a_run_killed_again_and_again_ends_with_the_same_files(toy, tmp_path, reference):
    rng, kills = random.Random(20191), 0
    for _ in range(4):
        with start_toy(tmp_path) as child:
            # When this process is kept waiting, the child may be done before it is killed.
            if not read_until(child, cells=rng.randint(1, 3)):
                break
            time.sleep(rng.uniform(0.0, 0.06))  # within the next cell, or within its write
            child.kill()
        kills += child.returncode < 0
        assert_every_cell_is_whole(toy, tmp_path)
    assert kills >= 1
    report = run_experiment(toy.EXPERIMENT, "quick", out=tmp_path)
    assert report.reused >= kills
    assert pure_files(tmp_path) == reference


def test_several_runs_at_once_on_one_store_compute_each_cell_once(toy, tmp_path, reference):
    children = [start_toy(tmp_path) for _ in range(3)]
    errors = [child.communicate()[1] for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], errors
    assert sum(int(error.split()[-1]) for error in errors) == 12
    assert not any("damaged" in error for error in errors)
    assert_every_cell_is_whole(toy, tmp_path)
    assert pure_files(tmp_path) == reference
    assert not list(tmp_path.rglob(".partial-*"))
    assert not list((tmp_path / "cells/.leases").iterdir())


def test_a_run_takes_other_cells_first_and_waits_for_those_of_another_run(toy, tmp_path):
    store, order, notes = Store(tmp_path), [], []
    cells = toy.cells(toy.EXPERIMENT.presets["smoke"].config)
    store.prepare(toy.NAME)

    class Recorder(Reporter):
        def cell_finished(self, cell, seconds):
            assert seconds >= 0
            order.append(cell.label)

        def note(self, text):
            notes.append(text)

    with store.leases() as others:
        assert others.take(cells[0].digest)
        with ThreadPoolExecutor(1) as pool:
            run = pool.submit(
                run_experiment, toy.EXPERIMENT, "smoke", out=tmp_path, progress=Recorder()
            )
            while len(order) < 2 or len(notes) < 2:
                time.sleep(0.01)
            assert not run.done()
            result = toy.run(cells[0].config, seed=0, progress=lambda *_: None)
            store.write(cells[0], result, {})
            others.give_back(cells[0].digest, done=True)
            report = run.result(timeout=30)
    assert order == ["cell 1", "cell 2", "cell 0"]
    assert (report.computed, report.reused) == (2, 1)
    assert notes[1] == "other runs on this folder compute 1 of the cells; waiting for them."


def test_two_forced_writers_of_one_cell_end_with_a_whole_cell(toy, tmp_path):
    store = Store(tmp_path)
    store.prepare()
    cell = Cell(toy.NAME, toy.VERSION, toy.ToyCell(0, 1000))
    result = toy.run(cell.config, seed=0, progress=lambda *_: None)

    def write_often(_):
        for _ in range(20):
            store.write(cell, result, {}, replace=True)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(write_often, range(3)))
    assert store.read(cell).rows == 10
    assert not list(tmp_path.rglob(".partial-*"))


def test_the_errors_of_the_engine_are_all_one_line_errors():
    assert issubclass(CellError, UnlazyError)
    assert issubclass(StoreError, UnlazyError)
