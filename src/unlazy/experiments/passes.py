# SPDX-License-Identifier: Apache-2.0
"""One pass over an experiment: which cells are stored, and at the end claims and figure."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlazy.core import disk
from unlazy.core.drawing import style
from unlazy.core.errors import ArgumentsError
from unlazy.experiments.canonical import readable_json
from unlazy.experiments.cell import Cell, CellResult, Results
from unlazy.experiments.claims import Claim
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.figures import save_figure
from unlazy.experiments.joined import taken_apart
from unlazy.experiments.obtaining import stored_result
from unlazy.experiments.store import DamagedCellError, Store


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


@dataclass(frozen=True)
class Options:
    """What a run does with the store."""

    out: Path | str
    force: bool
    tables: Path | str | None

    def __post_init__(self) -> None:
        if self.force and self.tables is not None:
            raise ArgumentsError(
                f"`tables` must be left out with `force`, got tables='{self.tables}'."
            )


class Pass:
    """One pass over the cells of an experiment, and what came of it."""

    def __init__(self, experiment: Experiment, preset: str, store: Store, options: Options) -> None:
        self.began = time.perf_counter()
        self.experiment, self.preset, self.store = experiment, preset, store
        self.config, self.force = experiment.preset(preset).config, options.force
        store.prepare(experiment.name)
        self.folder = store.root / experiment.name / preset
        disk.make_writable(self.folder)  # tried now, not when all is computed
        if options.tables is not None:
            _take(store, experiment, self.config, Path(options.tables))
        self.notes: list[str] = []
        self.computed = 0

    def look(self, note: Callable[[str], None]) -> None:
        """Find which cells are stored; `note` is told of damaged ones."""
        for text in self.experiment.notes(self.config):
            note(text)
        self.cells = _checked(self.experiment, self.experiment.cells(self.config))
        self.found: dict[Cell, CellResult] = {}
        for cell in () if self.force else self.cells:
            try:
                result = stored_result(self.store, cell)
            except DamagedCellError as error:
                note(f"{error} It is computed again.")
                continue
            if result is not None:
                self.found[cell] = result
        self.stored = len(self.found)

    @property
    def missing(self) -> list[Cell]:
        """The cells without a result, in order."""
        return [cell for cell in self.cells if cell not in self.found]

    def report(self) -> RunReport:
        """Check the claims, draw the figure, and say what came of it."""
        results = {cell: self.found[cell] for cell in self.cells}
        disk.clear_abandoned(self.folder)
        claims = tuple(self.experiment.claims(self.config, results))
        claims_file = _write_claims(self.folder, self.experiment, self.preset, claims, results)
        with style():
            figure = self.experiment.plot(self.config, results)
            figures = save_figure(figure, self.folder, "figure")
        return RunReport(
            experiment=self.experiment.name,
            preset=self.preset,
            claims=claims,
            figures=figures,
            claims_file=claims_file,
            computed=self.computed,
            reused=len(results) - self.computed,
            seconds=time.perf_counter() - self.began,
            notes=tuple(self.notes),
        )


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
