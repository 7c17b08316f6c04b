# SPDX-License-Identifier: Apache-2.0
"""Running an experiment: compute what is not stored yet, check the claims, draw the figure."""

import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from unlazy.core import disk
from unlazy.core.drawing import style
from unlazy.core.entries import entry
from unlazy.core.errors import ArgumentsError
from unlazy.experiments.canonical import readable_json
from unlazy.experiments.cell import Cell, CellResult, Results
from unlazy.experiments.claims import Claim
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.figures import save_figure
from unlazy.experiments.joined import taken_apart
from unlazy.experiments.obtaining import Looks, cell_error, obtain, stored_result
from unlazy.experiments.progress import Reporter
from unlazy.experiments.store import DamagedCellError, Store
from unlazy.experiments.workers import compute_all, default_jobs

_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:\d+")


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
    tables: Path | str | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
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
        tables: A folder of tables, such as the `files` of a report. Cells that are in them are
            stored in place of being computed.
        jobs: How many cells to compute at a time, each in a thread with memory of its own; by
            default one, or up to six on an accelerator with 16 GiB for each, where one cell trains
            while others compile. The stored tables do not depend on it on a CPU; on a GPU any two
            runs differ by rounding, since products are tuned anew. With more than one, settings of
            JAX hold in the cells only if they are global, not if they are scoped by a `with`.
        scheduler: The address of a Dask scheduler, such as `tcp://host:8786`, whose workers are to
            compute the cells. They must be able to import the experiment; they need not see `out`.
        workers: How many worker processes to start on this machine, in place of a scheduler's;
            each computes `jobs` cells at a time. They have settings of JAX only from the
            environment.
        progress: What to show meanwhile; nothing by default.

    Raises:
        UnknownNameError: If there is no such preset.
        StoreError: If the output folder cannot be written, which is tried before computing.
        CellError: If a cell fails; what was done is stored.
        ArgumentsError: If `tables` is no such folder, or given with `force`.
        UnlazyError: If Dask is needed and not installed, or the scheduler cannot be reached.
        ValueError: If `jobs` or `workers` is no positive integer, or given with a `scheduler`.
    """
    began = time.perf_counter()
    where = _Where(jobs, scheduler, workers)
    if force and tables is not None:
        raise ArgumentsError(f"`tables` must be left out with `force`, got tables='{tables}'.")
    config = experiment.preset(preset).config
    store = Store(out)
    store.prepare(experiment.name)
    folder = store.root / experiment.name / preset
    disk.make_writable(folder)  # tried now, not when all is computed
    task = _Task(experiment, store, progress or Reporter())
    if tables is not None:
        _take(store, experiment, config, Path(tables))
    try:
        results = task.results(config, where, force=force)
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


@dataclass(frozen=True)
class _Where:
    """Where cells are computed: here, at a scheduler's workers, or at workers of our own."""

    jobs: int | None
    scheduler: str | None
    workers: int | None

    def __post_init__(self) -> None:
        if self.scheduler is not None and not _ADDRESS.fullmatch(self.scheduler):
            raise ArgumentsError(
                "`scheduler` must be an address such as tcp://host:8786 or tls://host:8786, "
                f"got scheduler={self.scheduler!r}."
            )
        for name in ("jobs", "workers"):
            count = getattr(self, name)
            if count is None:
                continue
            if isinstance(count, bool) or not isinstance(count, int) or count < 1:
                raise ValueError(f"`{name}` must be an integer >= 1, got {name}={count!r}.")
            if self.scheduler is not None:
                raise ArgumentsError(
                    f"`{name}` must be left out with a scheduler, whose workers decide it, "
                    f"got {name}={count!r}."
                )


class _Task:
    """One pass over the cells, and what is counted on the way."""

    def __init__(self, experiment: Experiment, store: Store, reporter: Reporter) -> None:
        self.experiment, self.store, self.reporter = experiment, store, reporter
        self.computed, self.jobs = 0, 1
        self.notes: list[str] = []
        self.lock = threading.RLock()  # of the reporter, the notes and the count
        self.stopped = threading.Event()

    def results(self, config: Any, where: _Where, *, force: bool) -> Results:
        """Every cell's result, in order, from the store or computed."""
        for note in self.experiment.notes(config):
            self._note(note)
        cells = _checked(self.experiment, self.experiment.cells(config))
        stored = {} if force else {c: r for c in cells if (r := self._stored(c)) is not None}
        self.reporter.start(self.experiment.name, len(cells), len(stored))
        missing = [cell for cell in cells if cell not in stored]
        with self.store.leases() as self.leases:
            if where.scheduler is None and where.workers is None:
                computed = self._computed(missing, where.jobs, force=force)
            else:
                computed = self._on_cluster(missing, where, force=force)
        return {cell: stored.get(cell) or computed[cell] for cell in cells}

    def _on_cluster(
        self, missing: Sequence[Cell], where: _Where, *, force: bool
    ) -> dict[Cell, CellResult]:
        # Imported here: most runs do without.
        from unlazy.experiments.cluster import ClusterRun

        run = ClusterRun(
            *(self.experiment, self.store, self.leases),
            force=force,
            arrived=self._arrived,
            note=self._note,
        )
        if not missing:
            return {}
        return run.results(missing, where.scheduler, where.workers or 1, where.jobs)

    def _arrived(self, cell: Cell, computed: bool, seconds: float) -> None:
        self.computed += computed
        self.reporter.cell_started(cell)
        self.reporter.cell_finished(cell, seconds)

    def _computed(
        self, missing: Sequence[Cell], jobs: int | None, *, force: bool
    ) -> dict[Cell, CellResult]:
        """The results of these cells; at the end, waits for those that other runs compute."""
        if missing:
            self.jobs = min(jobs or default_jobs(), len(missing))
        found: dict[Cell, CellResult] = {}
        looks = Looks(self._note)
        while missing:
            outcome = compute_all(
                partial(self._obtain, force=force), missing, self.jobs, stopped=self.stopped
            )
            found |= {cell: result for cell, result in outcome.items() if result is not None}
            missing = [cell for cell in missing if cell not in found]
            if missing:
                looks.wait(len(missing))
        return found

    def _note(self, text: str) -> None:
        with self.lock:
            self.notes.append(text)
            self.reporter.note(text)

    def _stored(self, cell: Cell) -> CellResult | None:
        """The stored result; None if there is none, or if it is damaged, which is told."""
        try:
            return stored_result(self.store, cell)
        except DamagedCellError as error:
            self._note(f"{error} It is computed again.")
            return None

    def _obtain(self, cell: Cell, *, force: bool) -> CellResult | None:
        """Compute and store a cell, unless another run just did; None if one does so now."""
        with self.leases.holding(cell.digest) as ours:
            if not ours:
                return None
            began = time.perf_counter()
            with self.lock:
                self.reporter.cell_started(cell)
            work = obtain(self.store, cell, self._compute, force=force, jobs=self.jobs)
            with self.lock:
                self.computed += work.computed
                self.reporter.cell_finished(cell, time.perf_counter() - began)
            return work.result

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
            raise cell_error(cell, error, self.store.root) from error


def _take(store: Store, experiment: Experiment, config: Any, tables: Path) -> None:
    """Store the cells that are not stored and stand in the tables."""
    taken = taken_apart(tables, experiment.name, experiment.version)
    for cell in experiment.cells(config):
        if cell.digest in taken and not store.has(cell):
            store.write(cell, taken[cell.digest].result, taken[cell.digest].meta)


def _checked(experiment: Experiment, cells: Sequence[Cell]) -> Sequence[Cell]:
    """The cells without repetition; raise unless all are this experiment's."""
    for cell in cells:
        if (cell.experiment, cell.version) != (experiment.name, experiment.version):
            raise ValueError(
                f"`cells` must give cells of {experiment.name!r} version {experiment.version}, "
                f"got experiment={cell.experiment!r}, version={cell.version}."
            )
    return list(dict.fromkeys(cells))


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
