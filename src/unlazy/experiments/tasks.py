# SPDX-License-Identifier: Apache-2.0
"""What a worker does for one cell, and how it finds the cell's experiment.

A worker that sees the client's folder takes the lease and stores the cell itself: neither the death
of the client nor a large result then matters. Any other worker sends the result to the client,
which takes the lease in its place and stores the cell.
"""

import functools
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from unlazy.core.errors import UnlazyError
from unlazy.experiments.cell import Cell, CellResult
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.obtaining import obtain, record
from unlazy.experiments.store import Store


class CellFailure(Exception):
    """A cell raised the error that this one has as its argument, while it was computed."""


class LostError(Exception):
    """The connection to the scheduler broke."""


class Task(NamedTuple):
    """A cell for a worker."""

    experiment: str  # the name that `reference` gives
    cell: Cell
    root: str  # the client's store
    marker: str  # a file of the client's: who sees it sees the same folder
    run: str  # names the client's run: what is stored for it is not computed again
    force: bool
    leased: bool  # the client holds the lease
    on_processor: bool = False  # though there be an accelerator


class Answer(NamedTuple):
    """What a worker says of a task."""

    kind: str  # "stored", "computed", "busy" (another run has the lease) or "unshared"
    computed: bool = False  # for this run
    seconds: float = 0.0
    result: CellResult | None = None  # if `kind` is "computed"
    meta: dict[str, Any] | None = None  # to be stored with it


Outcome = Answer | BaseException


def perform(task: Task, *, jobs: int | None = None) -> Answer:
    """Compute a cell on a worker, unless it is stored or another run computes it."""
    began = time.perf_counter()
    jobs = jobs or _threads()
    experiment = _resolved(task.experiment, task.cell)
    with experiment.device():
        return _perform(task, functools.partial(_run, experiment), jobs, began)


def _perform(task: Task, run: Callable[[Cell], CellResult], jobs: int, began: float) -> Answer:
    if task.leased:
        result = run(task.cell)
        seconds = time.perf_counter() - began
        return Answer("computed", True, seconds, result, record(seconds, jobs))
    if not os.path.exists(task.marker):
        return Answer("unshared")
    store = Store(task.root)
    with store.leases() as leases, leases.holding(task.cell.digest) as ours:
        if not ours:
            return Answer("busy")
        work = obtain(store, task.cell, run, force=task.force, jobs=jobs, run=task.run)
        return Answer("stored", work.computed, time.perf_counter() - began)


def reference(experiment: Experiment) -> str:
    """The module and name under which a worker finds the experiment, such as `package.module:NAME`.

    Raises:
        UnlazyError: If it is no global name of a module that can be imported.
    """
    # Its own functions may all be shared with other experiments: then any module will do.
    for module in dict.fromkeys([*_modules(experiment), *sys.modules]):
        if module in ("__main__", "__mp_main__"):
            continue
        for name, value in list(getattr(sys.modules.get(module), "__dict__", {}).items()):
            if value is experiment:
                return f"{module}:{name}"
    raise UnlazyError(
        f"`experiment` must be a global name of a module that workers can import, "
        f"got {experiment.name!r}, which is none. Define it in a module beside its functions, "
        "not in the script that is run."
    )


def _modules(experiment: Experiment) -> Iterator[str]:
    """The modules of the experiment's functions, each with the packages around it."""
    for function in (experiment.run, experiment.cells, experiment.claims, experiment.plot):
        inner = function.func if isinstance(function, functools.partial) else function
        parts = str(getattr(inner, "__module__", "")).split(".")
        yield from (".".join(parts[:end]) for end in range(len(parts), 0, -1))


def _resolved(name: str, cell: Cell) -> Experiment:
    """The experiment of that name, if it is the one that the client has."""
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise UnlazyError(
            f"a worker cannot import {name}: {error}. Install it where the workers run."
        ) from error
    if (found.name, found.version) != (cell.experiment, cell.version):
        raise UnlazyError(
            f"a worker has version {found.version} of {found.name}, this run version "
            f"{cell.version} of {cell.experiment}. Start the workers again with the same code."
        )
    return found


def _run(experiment: Experiment, cell: Cell) -> CellResult:
    try:
        return experiment.run(cell.config, seed=cell.seed, progress=_silent)
    except Exception as error:
        raise CellFailure(error) from error


def _silent(done: int, total: int) -> None:
    """Report nothing: the client hears of finished cells."""


def _threads() -> int:
    from distributed import get_worker

    return get_worker().state.nthreads


def marker_in(root: Path) -> Path:
    """A new file in the store, by which workers see that they see the same folder."""
    from unlazy.core import disk

    path = disk.temporary_path(root.absolute() / "cells")
    with disk.disk_errors("write to", root):
        path.touch()
    return path
