# SPDX-License-Identifier: Apache-2.0
"""Runs the entrants of a case in turn, on the same cores, and compares their answers with ours."""

import json
import os
import statistics
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.cases import OURS, Case, Entrant
from benchmarks.peers.environments import ROOT, interpreter

THREADS = 2
TIMEOUT = 300  # seconds that one process may take


@dataclass(frozen=True)
class Result:
    """Medians over the rounds, in seconds, and the largest peak; or why there is none.

    `best` is the fastest of all calls: where it is far below the median, the machine was busy.
    """

    entrant: Entrant
    first: float = float("nan")
    median: float = float("nan")
    best: float = float("nan")
    peak_bytes: int = 0
    difference: float | None = None  # to ours, relative to the largest entry
    answer: tuple[float, ...] = ()  # where its entries have names
    versions: dict[str, str] | None = None
    failure: str | None = None


def same_cores() -> None:
    """Keep this process, and all that it starts, on the first cores of those it may use."""
    # XLA sizes its thread pool by this and by nothing else.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])


def run_case(case: Case, *, everything: bool = False) -> list[Result]:
    """Measure the entrants, one process each a round, so that noise falls on all alike."""
    entrants = [one for one in case.entrants if everything or not one.hopeless]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        inputs: dict[str, Any] = dict(case.inputs(np.random.default_rng(case.seed)))
        np.savez(folder / "inputs.npz", **inputs)
        reports: dict[Entrant, list[dict[str, Any]]] = {one: [] for one in entrants}
        failures: dict[Entrant, str] = {}
        for turn in range(max(one.rounds for one in entrants)):
            for one in entrants:
                if turn < one.rounds and one not in failures:
                    try:
                        reports[one].append(_process(case, one, folder))
                    except _Failed as failed:
                        failures[one] = str(failed)
        return [
            _failed(one, failures[one])
            if one in failures
            else _summary(case, one, reports[one], folder)
            for one in entrants
        ]


class _Failed(Exception):
    """The process of an entrant gave no answer."""


def _process(case: Case, one: Entrant, folder: Path) -> dict[str, Any]:
    command = [
        *(str(interpreter(one.library)), "-m", f"benchmarks.peers.run_{one.library}"),
        *("--case", case.name, "--variant", one.variant, "--calls", str(one.calls)),
        *("--inputs", str(folder / "inputs.npz"), "--output", str(_answer(folder, one))),
    ]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=_surroundings(),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _Failed(f"took more than {TIMEOUT} s") from None
    if done.returncode:
        said = done.stderr.strip().splitlines() or ["nothing said"]
        raise _Failed(f"exit code {done.returncode}: {said[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def _surroundings() -> dict[str, str]:
    """The same for all: as many threads, no accelerator, no settings of the caller's."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))
    }
    threads = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    return {
        **kept,
        **dict.fromkeys(threads, str(THREADS)),
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }


def _answer(folder: Path, one: Entrant) -> Path:
    return folder / f"{one.library}-{one.variant}.npz"


def _failed(one: Entrant, why: str) -> Result:
    return Result(one, failure=why)


def _summary(case: Case, one: Entrant, reports: list[dict[str, Any]], folder: Path) -> Result:
    return Result(
        entrant=one,
        first=statistics.median(report["first"] for report in reports),
        median=statistics.median(report["median"] for report in reports),
        best=min(report["best"] for report in reports),
        peak_bytes=max(report["peak_bytes"] for report in reports),
        difference=_difference(_answer(folder, one), _answer(folder, OURS)),
        answer=_entries(_answer(folder, one)) if case.entries else (),
        versions=reports[0]["versions"],
    )


def _entries(answer: Path) -> tuple[float, ...]:
    with np.load(answer) as stored:
        return tuple(stored["value"].tolist())


def _difference(answer: Path, ours: Path) -> float | None:
    if not ours.exists():
        return None
    with np.load(answer) as stored, np.load(ours) as reference:
        value, wanted = stored["value"], reference["value"]
    if value.shape != wanted.shape:
        return float("inf")
    difference = np.max(np.abs(value - wanted)) / np.max(np.abs(wanted))
    return float(difference) if np.isfinite(difference) else float("inf")
