# SPDX-License-Identifier: Apache-2.0
"""A claim: what a paper says of a figure, as a number, a threshold and a verdict."""

import math
import operator
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unlazy.core.entries import entry
from unlazy.core.json_numbers import json_number

HOLDS, REFUTED = "holds", "refuted"

_RELATIONS: dict[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "in": lambda value, interval: interval[0] <= value <= interval[1],
}


@dataclass(frozen=True)
class Claim:
    """One statement about a figure, and the verdict of our run.

    A refuted claim stays in the record: a run fails if a verdict is not the recorded one, in either
    direction.

    Example:
        >>> claim = Claim("AR-80/order", "True labels train faster.", 0.4, "<", 1.0)
        >>> claim.verdict, claim.as_expected
        ('holds', True)
    """

    id: str  # such as `AR-80/order`, for the identifier of the statement in the paper's map
    sentence: str  # what the paper says, in our words
    measured: float | int  # a nan refutes the claim
    relation: str  # `<=`, `>=`, `<`, `>`, or `in` for a closed interval
    threshold: float | int | tuple[float | int, float | int]  # (low, high) for `in`
    expected: str = HOLDS  # the recorded verdict at this preset, `holds` or `refuted`
    note: str = ""  # such as the number of seeds, or why it is refuted

    @entry
    def __post_init__(self) -> None:
        if self.relation not in _RELATIONS:
            raise ValueError(
                f"`relation` must be one of {', '.join(_RELATIONS)}, "
                f"got relation={self.relation!r}."
            )
        if self.expected not in (HOLDS, REFUTED):
            raise ValueError(
                f"`expected` must be 'holds' or 'refuted', got expected={self.expected!r}."
            )
        if (self.relation == "in") != isinstance(self.threshold, tuple):
            raise ValueError(
                "`threshold` must be a pair (low, high) with the relation 'in' and a number with "
                f"the others, got threshold={self.threshold}, relation={self.relation!r}."
            )
        bounds = self.threshold if isinstance(self.threshold, tuple) else (self.threshold,) * 2
        if not bounds[0] <= bounds[-1]:  # also refuses nan, against which nothing can be said
            raise ValueError(
                "`threshold` must be a number, or a pair with low <= high, "
                f"got threshold={self.threshold}."
            )

    @property
    def verdict(self) -> str:
        """`holds` or `refuted`, from the measured number alone."""
        return HOLDS if _RELATIONS[self.relation](self.measured, self.threshold) else REFUTED

    @property
    def as_expected(self) -> bool:
        """Whether the verdict is the recorded one."""
        return self.verdict == self.expected

    @property
    def outcome(self) -> str:
        """The verdict beside the recorded one, in a few words."""
        if self.as_expected:
            return HOLDS if self.verdict == HOLDS else "refuted (as recorded)"
        if self.verdict == REFUTED:
            return "REFUTED: recorded as holding"
        return "HOLDS: recorded as refuted"

    def to_dict(self) -> dict[str, Any]:
        """The claim for JSON; numbers that JSON cannot say are strings that `float` reads."""
        bounds = self.threshold
        return {
            "id": self.id,
            "sentence": self.sentence,
            "measured": json_number(self.measured),
            "relation": self.relation,
            "threshold": [json_number(bound) for bound in bounds]
            if isinstance(bounds, tuple)
            else json_number(bounds),
            "verdict": self.verdict,
            "expected": self.expected,
            "as_expected": self.as_expected,
            "note": self.note,
        }


@entry
def least(values: Any) -> float:
    """The least of all numbers; nan, which refutes a claim, if there is none or one is nan."""
    numbers = np.asarray(values, float)
    return float(numbers.min()) if numbers.size else math.nan


@entry
def largest(values: Any) -> float:
    """The largest of all numbers; nan, which refutes a claim, if there is none or one is nan.

    Example:
        >>> largest([1, 2]), largest([])
        (2.0, nan)
    """
    numbers = np.asarray(values, float)
    return float(numbers.max()) if numbers.size else math.nan


@entry
def with_record(claims: Iterable[Claim], refuted: Collection[str]) -> list[Claim]:
    """The claims, with `refuted` as the recorded verdict of some.

    Args:
        claims: as measured.
        refuted: their identifiers, or what follows the slash.

    Example:
        >>> claim = Claim("AR-80/order", "True labels train faster.", 2.0, "<", 1.0)
        >>> with_record([claim], ("order",))[0].outcome
        'refuted (as recorded)'
    """
    return [
        replace(claim, expected=REFUTED)
        if claim.id in refuted or claim.id.partition("/")[2] in refuted
        else claim
        for claim in claims
    ]
