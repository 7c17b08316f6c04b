# SPDX-License-Identifier: Apache-2.0
"""Running an experiment: compute what is not stored yet, check the claims, draw the figure."""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from unlazy.core import disk
from unlazy.core.drawing import style
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyError
from unlazy.experiments import environment
from unlazy.experiments.canonical import readable_json
from unlazy.experiments.cell import Cell, CellResult, Results
from unlazy.experiments.claims import Claim
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.figures import save_figure
from unlazy.experiments.progress import Reporter
from unlazy.experiments.store import DamagedCellError, Store
from unlazy.experiments.workers import compute_all, default_jobs


class CellError(UnlazyError):
    """A cell failed; its cause says why, and the finished cells are stored."""


@dataclass(frozen=True)
class RunReport:
    """What came of a run."""

    experiment: str
    preset: str
    claims: tuple[Claim, ...]
    figures: tuple[Path, ...]  # the PNG and the SVG
    claims_file: Path  # the claims as JSON
    computed: int  # cells
    reused: int  # cells that came from the store
    seconds: float
    notes: tuple[str, ...]  # remarks for the user

    @property
    def ok(self) -> bool:
        """Whether every verdict is the recorded one."""
        return all(claim.as_expected for claim in self.claims)

    def to_dict(self) -> dict[str, Any]:
        """The report for JSON."""
        return {
            "experiment": self.experiment,
            "preset": self.preset,
            "ok": self.ok,
            "claims": [claim.to_dict() for claim in self.claims],
            "figures": [str(path) for path in self.figures],
            "claims_file": str(self.claims_file),
            "cells": {"computed": self.computed, "reused": self.reused},
            "seconds": round(self.seconds, 3),
            "notes": list(self.notes),
        }


@entry
def run_experiment(
    experiment: Experiment,
    preset: str = "quick",
    *,
    out: Path | str = "runs",
    force: bool = False,
    jobs: int | None = None,
    progress: Reporter | None = None,
) -> RunReport:
    """Run an experiment, or the part of it that is not stored yet.

    Stored cells are not computed again: a run that was killed resumes where it was, and one that
    was complete only checks the claims and draws the figure again, from the stored tables. Figure
    and claims go to `<out>/<experiment>/<preset>/`.

    Args:
        experiment: What to run.
        preset: The name of one of its presets.
        out: The output folder, made if need be; several runs may share it.
        force: Compute every cell again, in place of the stored ones.
        jobs: How many cells to compute at a time, each in a thread with memory of its own; by
            default one, or up to six on an accelerator with 16 GiB for each, where one cell trains
            while others compile. The stored tables do not depend on it on a CPU; on a GPU any two
            runs differ by rounding, since products are tuned anew. With more than one, settings of
            JAX hold in the cells only if they are global, not if they are scoped by a `with`.
        progress: What to show meanwhile; nothing by default.

    Raises:
        UnknownNameError: If there is no such preset.
        StoreError: If the output folder cannot be written, which is tried before computing.
        CellError: If a cell fails; what was done is stored.
        ValueError: If `jobs` is no positive integer.
    """
    began = time.perf_counter()
    if jobs is not None and (isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1):
        raise ValueError(f"`jobs` must be an integer >= 1, got jobs={jobs!r}.")
    config = experiment.preset(preset).config
    store = Store(out)
    store.prepare(experiment.name)
    folder = store.root / experiment.name / preset
    disk.make_writable(folder)  # tried now, not when all is computed
    task = _Task(experiment, store, progress or Reporter())
    try:
        results = task.results(config, force=force, jobs=jobs)
    finally:
        task.reporter.close()
    disk.clear_abandoned(folder)
    claims = tuple(experiment.claims(config, results))
    claims_file = _write_claims(folder, experiment, preset, claims, results)
    with style():
        figures = save_figure(experiment.plot(config, results), folder, "figure")
    return RunReport(
        experiment=experiment.name,
        preset=preset,
        claims=claims,
        figures=figures,
        claims_file=claims_file,
        computed=task.computed,
        reused=len(results) - task.computed,
        seconds=time.perf_counter() - began,
        notes=tuple(task.notes),
    )


class _Task:
    """One pass over the cells, and what is counted on the way."""

    def __init__(self, experiment: Experiment, store: Store, reporter: Reporter) -> None:
        self.experiment, self.store, self.reporter = experiment, store, reporter
        self.computed, self.jobs = 0, 1
        self.notes: list[str] = []
        self.lock = threading.RLock()  # of the reporter, the notes and the count
        self.stopped = threading.Event()

    def results(self, config: Any, *, force: bool, jobs: int | None) -> Results:
        """Every cell's result, in order, from the store or computed."""
        for note in self.experiment.notes(config):
            self._note(note)
        cells = _checked(self.experiment, self.experiment.cells(config))
        stored = {} if force else {c: r for c in cells if (r := self._stored(c)) is not None}
        self.reporter.start(self.experiment.name, len(cells), len(stored))
        missing = [cell for cell in cells if cell not in stored]
        if missing:
            self.jobs = min(jobs or default_jobs(), len(missing))
        compute = partial(self._obtain, force=force)
        computed = compute_all(compute, missing, self.jobs, stopped=self.stopped)
        return {cell: stored.get(cell) or computed[cell] for cell in cells}

    def _note(self, text: str) -> None:
        with self.lock:
            self.notes.append(text)
            self.reporter.note(text)

    def _stored(self, cell: Cell) -> CellResult | None:
        """The stored result; None if there is none, or if it is damaged, which removes it."""
        if not self.store.has(cell):
            return None
        try:
            return self.store.read(cell)
        except DamagedCellError as error:
            self._note(f"{error} It is computed again.")
            self.store.remove(cell)
            return None

    def _obtain(self, cell: Cell, *, force: bool) -> CellResult:
        """Compute and store a cell, unless another run on this store just did."""
        began = time.perf_counter()
        with self.lock:
            self.reporter.cell_started(cell)
        result = None if force else self._stored(cell)
        if result is None:
            result = self._compute(cell)
            seconds = time.perf_counter() - began
            self.store.write(cell, result, _meta(seconds, self.jobs), replace=force)
            with self.lock:
                self.computed += 1
        with self.lock:
            self.reporter.cell_finished(cell, time.perf_counter() - began)
        return result

    def _compute(self, cell: Cell) -> CellResult:
        def progress(done: int, total: int) -> None:
            if self.stopped.is_set():
                raise InterruptedError
            with self.lock:
                self.reporter.cell_progress(cell, done, total)

        try:
            return self.experiment.run(cell.config, seed=cell.seed, progress=progress)
        except Exception as error:
            if self.jobs > 1 and not self.stopped.is_set():
                self._note(f"the cell '{cell}' failed; those at work are finished first.")
            kind = "" if isinstance(error, UnlazyError) else f"{type(error).__name__}: "
            raise CellError(
                f"the cell '{cell}' of {cell.experiment} failed: {kind}{error} "
                f"The finished cells are stored in '{self.store.root}': "
                "the same command resumes after them."
            ) from error


def _checked(experiment: Experiment, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The cells without repetition; raise unless all are this experiment's."""
    for cell in cells:
        if (cell.experiment, cell.version) != (experiment.name, experiment.version):
            raise ValueError(
                f"`cells` must give cells of {experiment.name!r} version {experiment.version}, "
                f"got experiment={cell.experiment!r}, version={cell.version}."
            )
    return list(dict.fromkeys(cells))


def _meta(seconds: float, jobs: int) -> dict[str, Any]:
    """What to record of a run that does not depend on the cell."""
    return {
        "seconds": round(seconds, 3),
        "jobs": jobs,  # cells computed at a time: with several, each takes longer
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        "device": environment.used_device(),
        "versions": environment.versions(),
    }


def _write_claims(
    folder: Path, experiment: Experiment, preset: str, claims: Sequence[Claim], results: Results
) -> Path:
    """Write the claims with the digests of the cells behind them."""
    path = folder / "claims.json"
    record = {
        "experiment": experiment.name,
        "version": experiment.version,
        "preset": preset,
        "claims": [claim.to_dict() for claim in claims],
        "cells": [cell.digest for cell in results],
    }
    disk.replace_file(path, readable_json(record))
    return path
