# SPDX-License-Identifier: Apache-2.0
"""The runs in an output folder: what they computed, with what, and what came out."""

import re
import shlex
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from unlazy.core import disk
from unlazy.core.errors import StoreError, UnlazyError
from unlazy.experiments.canonical import plain_json
from unlazy.experiments.cell import Results
from unlazy.experiments.claims import Claim
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.store import Store, StoredCell

_DIGEST = re.compile("[0-9a-f]{64}")
_NOT_A_RECORD = "it is not what a run writes"

Find = Callable[[str], Experiment | None]
"""The experiment of a name, or None if its code is not at hand."""


@dataclass(frozen=True)
class StoredRun:
    """A finished run of one figure at one preset."""

    experiment: str
    preset: str
    version: int  # of the experiment's code
    folder: Path  # holds the figure and the claims
    claims: tuple[Claim, ...]
    digests: tuple[str, ...]  # of its cells
    code: Experiment | None  # if it is at hand, and of the version that was run
    problem: str  # what is missing, in a sentence; empty if nothing is

    @property
    def slug(self) -> str:
        """The name of the run in addresses."""
        return f"{self.experiment}/{self.preset}".replace("/", "--")

    def read(self, store: Store) -> "RunWithCells":
        """The run with its cells, and what is wrong with these; those of one run fit in memory."""
        cells = []
        for digest in self.digests:
            with suppress(UnlazyError):
                cells.append(store.by_digest(self.experiment, digest))
        cells = tuple(cell for cell in cells if cell.identity["version"] == self.version)
        lost, problem = len(self.digests) - len(cells), self.problem
        if lost:
            again = _again(self.experiment, self.preset)
            problem = f"{lost} of {len(self.digests)} cells are lost or damaged. {again}"
        return RunWithCells(replace(self, problem=problem), cells)


class RunWithCells(NamedTuple):
    """A finished run, and its cells, without those that are lost."""

    run: StoredRun
    cells: tuple[StoredCell, ...]

    def results(self) -> Results | None:
        """The results as the figure's code wants them; None if they are not those of the preset.

        They differ where the run found other data sets than there are now.
        """
        code = self.run.code
        if code is None or self.run.problem:
            return None
        found = {cell.digest: cell.result for cell in self.cells}
        cells = dict.fromkeys(code.cells(code.presets[self.run.preset].config))
        if not all(cell.digest in found for cell in cells):
            return None
        return {cell: found[cell.digest] for cell in cells}


class FoundRuns(NamedTuple):
    """What an output folder holds."""

    runs: tuple[StoredRun, ...]  # sorted by name and preset
    left_out: tuple[str, ...]  # sentences about records that are not shown


def stored_runs(out: Path, find: Find) -> FoundRuns:
    """Every finished run in an output folder.

    Raises:
        StoreError: If the folder or a record in it cannot be read.
    """
    with disk.disk_errors("read", out):
        found = sorted(out.glob("**/claims.json"))
    runs, left_out = [], []
    for path in found:
        place = path.parent.relative_to(out).as_posix()
        if place.partition("/")[0] == "cells":
            continue
        record = _record(path)
        # Names of pages and files are made of these two: nothing but the folder vouches for them.
        if f"{record['experiment']}/{record['preset']}" == place:
            runs.append(_stored_run(path, record, find))
        else:
            left_out.append(f"'{place}' holds a copy of another run, which is not shown.")
    return FoundRuns(tuple(runs), tuple(left_out))


def _stored_run(path: Path, record: dict[str, Any], find: Find) -> StoredRun:
    code, problem = _code(record, find)
    return StoredRun(
        experiment=record["experiment"],
        preset=record["preset"],
        version=record["version"],
        folder=path.parent,
        claims=record["claims"],
        digests=tuple(dict.fromkeys(record["cells"])),
        code=code,
        problem=problem,
    )


def _record(path: Path) -> dict[str, Any]:
    """What a run wrote about itself, with its claims as such."""
    try:
        with disk.open_regular(path) as file:
            record = plain_json(file.read())
        kinds = {"experiment": str, "preset": str, "version": int, "claims": list, "cells": list}
        if not all(isinstance(record[name], kind) for name, kind in kinds.items()):
            raise ValueError(_NOT_A_RECORD)
        if not all(isinstance(one, str) and _DIGEST.fullmatch(one) for one in record["cells"]):
            raise ValueError("`cells` must be digests")
        return record | {"claims": tuple(_claim(one) for one in record["claims"])}
    except (OSError, ValueError, LookupError, TypeError, OverflowError) as error:
        missing = "it has no " if isinstance(error, LookupError) else ""
        reason = missing + " ".join(str(error).split())
        raise StoreError(f"cannot read '{path}': {reason}. Run the figure again.") from error


def _claim(told: Any) -> Claim:
    """A claim as `Claim.to_dict` tells it; the verdict follows from the numbers."""
    if not isinstance(told, dict):
        raise ValueError(f"`claims` must be objects, got {told!r:.40}")
    for name in ("id", "sentence", "note"):
        if not isinstance(told[name], str):
            raise ValueError(f"`{name}` of a claim must be text, got {told[name]!r:.40}")
    bounds = told["threshold"]
    return Claim(
        id=told["id"],
        sentence=told["sentence"],
        measured=float(told["measured"]),
        relation=told["relation"],
        threshold=_pair(bounds) if isinstance(bounds, list) else float(bounds),
        expected=told["expected"],
        note=told["note"],
    )


def _pair(bounds: list[Any]) -> tuple[float, float]:
    low, high = bounds
    return float(low), float(high)


def _code(record: Mapping[str, Any], find: Find) -> tuple[Experiment | None, str]:
    code = find(record["experiment"])
    if code is None:
        return None, ""  # a figure of the user's own: what is stored says enough
    if code.version != record["version"]:
        stored, now = record["version"], code.version
        again = _again(record["experiment"], record["preset"])
        return None, f"Stored by version {stored} of the figure, now {now}. {again}"
    if record["preset"] not in code.presets:
        return None, f"The figure has no preset '{record['preset']}' any more."
    return code, ""


def _again(experiment: str, preset: str) -> str:
    return f"Run it again: {run_command(experiment, preset)}."


def run_command(experiment: str, preset: str) -> str:
    """The command that runs a figure, for a shell, to which some characters mean more."""
    return f"unlazy run {shlex.quote(experiment)} --preset {shlex.quote(preset)}"
