# SPDX-License-Identifier: Apache-2.0
"""Running an experiment: compute what is not stored yet, check the claims, draw the figure."""

import contextlib
import re
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unlazy.core.entries import entry
from unlazy.core.errors import ArgumentsError
from unlazy.experiments.cell import Cell
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.passes import Options, Pass, RunReport
from unlazy.experiments.progress import Reporter
from unlazy.experiments.store import Store
from unlazy.experiments.workers import Threads

if TYPE_CHECKING:
    from unlazy.experiments.handing_out import Places

_ADDRESS = re.compile(r"(tcp|tls)://[^\s/]+:\d+")


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
        workers: How many worker processes to start on this machine, in place of a scheduler's.
            They divide the processor cores between them, so that results are those of one process
            up to rounding: with fewer cores, sums are added in another order. On an accelerator
            each computes `jobs` cells at a time in its share of the memory, by default as many as
            fit. Workers have settings of JAX only from the environment.
        progress: What to show meanwhile; nothing by default.

    Raises:
        UnknownNameError: If there is no such preset.
        StoreError: If the output folder cannot be written, which is tried before computing.
        CellError: If a cell fails; what was done is stored.
        ArgumentsError: If `tables` is no such folder, or given with `force`.
        UnlazyError: If Dask is needed and not installed, or the scheduler cannot be reached.
        ValueError: If `jobs` or `workers` is no positive integer, or given with a `scheduler`.
    """
    reporter = progress or Reporter()
    options = Options(out, force, tables)
    where = _Where(jobs, scheduler, workers)
    (report,) = _run([experiment], preset, options, where, lambda: reporter)
    return report


@entry
def run_experiments(
    experiments: Iterable[Experiment],
    preset: str = "quick",
    *,
    out: Path | str = "runs",
    force: bool = False,
    tables: Path | str | None = None,
    jobs: int | None = None,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Callable[[], Reporter] = Reporter,
) -> Generator[RunReport, None, None]:
    """Run several experiments; yields their reports, each as soon as it is complete.

    In this process they are run one after the other. Workers compute the cells of all of them
    together, in this order, so that none waits for the last cell of another experiment; reports
    come as experiments are complete, and an experiment that is named twice is reported once.

    Args:
        experiments: What to run; each must have the preset.
        preset: as for `run_experiment`, like all that follow.
        out: see there.
        force: see there.
        tables: see there.
        jobs: see there.
        scheduler: see there.
        workers: see there. Where there is an accelerator, cells of experiments that are for the
            processor have workers of their own, one for each second core, of one cell at a time.
        progress: Makes what shows an experiment on the way, or all of them if workers compute.
    """
    where = _Where(jobs, scheduler, workers)
    return _run(experiments, preset, Options(out, force, tables), where, progress)


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

    @property
    def is_here(self) -> bool:
        """Whether this process computes."""
        return self.scheduler is None and self.workers is None

    def workers_for(
        self, cells: Sequence[Cell], runs: Mapping[str, Pass], note: Callable[[str], None]
    ) -> "Callable[[], AbstractContextManager[Places]]":
        """How to reach the workers for these cells of experiments of these names."""
        # Imported here: most runs do without.
        from unlazy.experiments.cluster import Cluster
        from unlazy.experiments.local_places import LocalPlaces, posts

        if self.scheduler is not None:
            return Cluster(self.scheduler, note).connected
        count = min(self.workers or 1, len(cells))
        kinds = {runs[cell.experiment].experiment.on_processor for cell in cells}
        return lambda: LocalPlaces(posts(count, self.jobs, kinds), note)


def _run(
    experiments: Iterable[Experiment],
    preset: str,
    options: Options,
    where: _Where,
    progress: Callable[[], Reporter],
) -> Generator[RunReport, None, None]:
    """The reports; raises at once what can be known before anything is computed."""
    experiments = list(experiments)
    store = Store(options.out)
    for experiment in experiments:
        experiment.preset(preset)
    if where.is_here:
        return (
            _here(Pass(one, preset, store, options), where.jobs, progress()) for one in experiments
        )
    return _by_workers(
        [Pass(one, preset, store, options) for one in _different(experiments)],
        *(store, where, progress()),
    )


def _different(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Each experiment once; raise if two have one name."""
    by_name: dict[str, Experiment] = {}
    for experiment in experiments:
        if by_name.setdefault(experiment.name, experiment) is not experiment:
            raise ValueError(
                f"`experiments` must have different names, got two named {experiment.name!r}."
            )
    return list(by_name.values())


def _here(run: Pass, jobs: int | None, reporter: Reporter) -> RunReport:
    """The report on an experiment whose cells this process computes."""
    try:
        Threads(run, reporter).compute(jobs)
    finally:
        reporter.close()
    return run.report()


def _by_workers(
    runs: Sequence[Pass], store: Store, where: _Where, reporter: Reporter
) -> Generator[RunReport, None, None]:
    """The reports on experiments whose cells workers compute, each when its last cell is there."""
    # Imported here: most runs do without.
    from unlazy.experiments.handing_out import HandOut

    notes: list[str] = []  # those that no report has yet

    def note(text: str) -> None:
        notes.append(text)
        reporter.note(text)

    def hand_over(run: Pass) -> None:
        run.notes += notes
        notes.clear()

    def finished(run: Pass) -> RunReport:
        hand_over(run)
        report = run.report()
        run.found = {}  # its results may be large, and others are still to come
        reporter.hide()
        return report

    try:
        for run in runs:
            run.look(note)
            hand_over(run)
        total, stored = sum(len(run.cells) for run in runs), sum(run.stored for run in runs)
        reporter.start(_title(runs), total, stored)
        left = {run.experiment.name: run for run in runs if run.missing}
        yield from (finished(run) for run in runs if not run.missing)
        if not left:
            return
        missing = [cell for run in left.values() for cell in run.missing]
        connect = where.workers_for(missing, left, note)
        experiments = [run.experiment for run in left.values()]
        with store.leases() as leases, contextlib.ExitStack() as until_end:
            hand_out = HandOut(experiments, store, leases, force=runs[0].force, note=note)
            arrivals = hand_out.compute(missing, connect)
            until_end.callback(arrivals.close)
            for cell, result, answer in arrivals:
                run = left[cell.experiment]
                run.found[cell] = result
                run.computed += answer.computed
                reporter.cell_started(cell)
                reporter.cell_finished(cell, answer.seconds)
                if len(run.found) < len(run.cells):
                    continue
                try:
                    report = finished(run)
                except Exception as error:  # of its claims, say
                    arrivals.throw(error)  # the cells at work are finished
                    raise
                yield report
    finally:
        reporter.close()


def _title(runs: Sequence[Pass]) -> str:
    return runs[0].experiment.name if len(runs) == 1 else f"{len(runs)} figures"
