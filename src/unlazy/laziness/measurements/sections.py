# SPDX-License-Identifier: Apache-2.0
"""A measurement as people read it: its question, formula, cost, sample and table."""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from unlazy.core.json_numbers import json_number
from unlazy.laziness.tables import in_columns

Cell = str | float | int | None
SHOWN = 20, 10  # first and last lines of a long table in a terminal


class Section(NamedTuple):
    """One measurement of a report, ready to be printed or put on a page."""

    title: str
    question: str
    formula: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    notes: tuple[str, ...] = ()
    sample: str = ""  # the data that it was measured on
    seconds: float = math.nan

    def as_text(self) -> str:
        """The section for a terminal."""
        cost = "" if math.isnan(self.seconds) else f"; {self.seconds:.1f} s"
        head = [f"{self.title}: {self.question}", f"  {self.formula}"]
        if self.sample:
            head.append(f"  on {self.sample}{cost}")
        table = [f"    {line}" for line in self._short_table()]
        return "\n".join([*head, *table, *(f"  {note}" for note in self.notes)])

    def _short_table(self) -> list[str]:
        """The table, without the middle where it is long: the last layers count as the first do."""
        left = len(self.rows) - sum(SHOWN)
        if left <= 0:
            return table_lines(self.columns, self.rows)
        first, last = SHOWN
        lines = table_lines(self.columns, self.rows[:first] + self.rows[-last:])
        between = f"... {left} more, which `to_html` and `to_dict` have"
        return [*lines[: first + 1], between, *lines[first + 1 :]]

    def without(self, prefix: str) -> "Section":
        """The same with a prefix left out of the names of layers."""
        if not prefix:
            return self
        named = [(_left_out(row[0], prefix), *row[1:]) for row in self.rows]
        return self._replace(rows=tuple(named))

    def as_dict(self) -> dict[str, Any]:
        """The section for JSON."""
        rows = [
            {name: json_number(cell) for name, cell in zip(self.columns, row, strict=True)}
            for row in self.rows
        ]
        return {
            "question": self.question,
            "formula": self.formula,
            "sample": self.sample,
            "seconds": json_number(self.seconds),
            "rows": rows,
            "notes": list(self.notes),
        }


def common_prefix(names: Iterable[str]) -> str:
    """What all names of layers begin with, up to a slash, so that no bare number is left of one.

    Example:
        >>> common_prefix(["params/conv/0", "params/dense"]), common_prefix(["a", "b"])
        ('params/', '')
        >>> common_prefix(["net/layers/0", "net/layers/1"]), common_prefix(["dense"])
        ('net/', '')
    """
    names = list(names)
    parts = [name.split("/")[:-1] for name in names]
    shared = list(itertools.takewhile(lambda column: len(set(column)) == 1, zip(*parts)))  # noqa: B905
    while shared and any(name.split("/")[len(shared)].isdigit() for name in names):
        shared.pop()
    return "".join(f"{column[0]}/" for column in shared)


def _left_out(cell: Cell, prefix: str) -> Cell:
    return cell.replace(prefix, "") if isinstance(cell, str) else cell


def in_words(cell: Cell) -> str:
    """A cell of a table as text: numbers to three digits, a dash for what is not defined.

    Example:
        >>> in_words(0.012345), in_words(1234567), in_words(float("nan")), in_words("relu 1")
        ('0.0123', '1,234,567', '-', 'relu 1')
    """
    if cell is None or (isinstance(cell, float) and math.isnan(cell)):
        return "-"
    if isinstance(cell, int):
        return f"{cell:,}"
    return cell if isinstance(cell, str) else f"{cell:.3g}"


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """A table as lines of text, names to the left and numbers to the right."""
    body = [[in_words(cell) for cell in row] for row in rows]
    left = [k for k in range(len(columns)) if all(isinstance(row[k], str) for row in rows)]
    return in_columns([list(columns), *body], left=tuple(left))
