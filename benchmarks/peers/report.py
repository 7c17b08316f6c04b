# SPDX-License-Identifier: Apache-2.0
"""The table of a case, its limits, and the same as data."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.peers.cases import OURS, Case
from benchmarks.peers.driver import Result


@dataclass(frozen=True)
class Verdict:
    """A limit of a case, and whether it holds; `value` is None where nothing could be compared."""

    text: str
    value: float | None
    holds: bool


def is_void(case: Case, result: Result) -> bool:
    """Whether the answer is missing, or is not ours: then its time says nothing."""
    if result.failure is not None or result.difference is None:
        return True
    return result.entrant.same_answer and result.difference > case.tolerance


def judge(case: Case, results: list[Result]) -> Iterator[Verdict]:
    """Each limit against the fastest variant of that library whose answer is right."""
    for library, limit in case.at_least.items():
        ratio = _ratio(case, results, library)
        text = f"at least {limit:g} times faster than the fastest of {library}"
        yield Verdict(text, ratio, ratio is not None and ratio >= limit)
    for library, limit in case.at_most.items():
        ratio = _ratio(case, results, library)
        ratio = None if ratio is None else 1 / ratio
        text = f"at most {limit:g} times the {library}"
        yield Verdict(text, ratio, ratio is not None and ratio <= limit)


def _ratio(case: Case, results: list[Result], library: str) -> float | None:
    """Their seconds over ours."""
    valid = [result for result in results if not is_void(case, result)]
    ours = [result.median for result in valid if result.entrant.library == OURS.library]
    theirs = [result.median for result in valid if result.entrant.library == library]
    return min(theirs) / ours[0] if ours and theirs else None


def show(case: Case, results: list[Result]) -> None:
    print(f"\n{case.name}: {case.about}")
    print(
        f"{'':40} {'seconds':>9} {'best':>9} {'first':>8} {'times ours':>10} {'peak MB':>8} "
        f"{'differs':>8}"
    )
    own = (result.median for result in results if result.entrant.library == OURS.library)
    ours = next(own, float("nan"))
    for result in results:
        name = f"{result.entrant.name:40}"
        if result.failure is not None:
            print(f"{name} failed, {result.failure}")
            continue
        print(
            f"{name} {result.median:9.4f} {result.best:9.4f} {result.first:8.2f} "
            f"{result.median / ours:10.2f} {result.peak_bytes / 2**20:8.0f} "
            f"{_difference(case, result):>8}"
        )
    if case.entries:
        _show_answers(case, results)
    for verdict in judge(case, results):
        value = "void" if verdict.value is None else f"{verdict.value:.2f}"
        print(f"  {verdict.text}: {value}, {'held' if verdict.holds else 'MISSED'}")


def _show_answers(case: Case, results: list[Result]) -> None:
    """A dozen of the entries, from first to last, of all entrants that gave an answer."""
    given = [result for result in results if len(result.answer) == len(case.entries)]
    print(f"  {'answers':30} " + " ".join(f"{result.entrant.name:>18}" for result in given))
    last = len(case.entries) - 1
    for i in sorted({round(last * k / 11) for k in range(12)}):
        values = " ".join(f"{result.answer[i]:18.6g}" for result in given)
        print(f"  {case.entries[i]:30} {values}")


def _difference(case: Case, result: Result) -> str:
    if not result.entrant.same_answer:
        return "-"
    if result.difference is None:
        return "unknown"
    return f"{result.difference:.0e}" + (" VOID" if is_void(case, result) else "")


def as_data(case: Case, results: list[Result]) -> dict[str, Any]:
    return {
        "case": case.name,
        "about": case.about,
        "seed": case.seed,
        "entries": list(case.entries),
        "results": [
            {
                "library": result.entrant.library,
                "variant": result.entrant.variant,
                "rounds": result.entrant.rounds,
                "calls": result.entrant.calls,
                # No nan or inf, which JSON does not have.
                "first_seconds": None if result.failure else result.first,
                "median_seconds": None if result.failure else result.median,
                "best_seconds": None if result.failure else result.best,
                "peak_bytes": None if result.failure else result.peak_bytes,
                "difference": None if result.difference == float("inf") else result.difference,
                "answer": list(result.answer),
                "void": is_void(case, result),
                "failure": result.failure,
                "versions": result.versions,
            }
            for result in results
        ],
        "limits": [vars(verdict) for verdict in judge(case, results)],
    }
