# SPDX-License-Identifier: Apache-2.0
"""The records of a probe as a table over time."""

from collections.abc import Iterator, Sequence
from typing import Any

import equinox as eqx
import numpy as np

from unlazy.core.checks import check_name
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.panels import name_curves, next_look, panel
from unlazy.laziness.measurements.sections import Cell, table_lines
from unlazy.laziness.probing.records import ProbeRecord, clean

_SHOWN = {
    "step": "step",
    "loss": "loss",
    "accuracy": "accuracy",
    "linear_loss": "linear: loss",
    "linear_accuracy": "accuracy",
    "error_1": "misses",
    "movement": "moved",
    "kernel_relative": "kernel",
    "kernel_turned": "turned",
    "kernel_centred": "centred",
    "velocity": "velocity",
    "alignment": "alignment",
    "flips": "flipped",
}


class ProbeHistory(eqx.Module):
    """All records of a probe, in the order of their steps.

    `history["movement"]` is one column as an array; `history.columns` names them all. Those of a
    layer are named such as "movement/Dense_0".
    """

    records: tuple[ProbeRecord, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""
        return tuple(dict.fromkeys(name for record in self.records for name in record.as_row()))

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[ProbeRecord]:
        return iter(self.records)

    @entry
    def __getitem__(self, column: str) -> np.ndarray:
        """One column; nan where a record does not have it.

        Raises:
            UnknownNameError: there is no such column.
        """
        check_name(column, self.columns, "column")
        return np.array([record.as_row().get(column, np.nan) for record in self.records])

    @entry
    def plot(
        self,
        ax: Axes | None = None,
        *,
        columns: Sequence[str] = ("movement", "kernel_turned", "error_1"),
    ) -> Axes:
        """Draw columns over the steps, by default three that say how far from lazy training is.

        Args:
            ax: where to draw; None for a new figure, which is `plot().figure`.
            columns: names from `columns`.
        """
        if isinstance(columns, str) or not columns:
            raise TypeError(f"`columns` must be a list of names, got columns={columns!r}.")
        for name in columns:
            check_name(name, self.columns, "columns")
        with panel(ax) as ax:
            for name in columns:
                look = next_look(ax) | {"marker": "o", "ms": 3, "label": name.replace("_", " ")}
                ax.plot(self["step"], self[name].astype(float), **look)
            ax.set(xlabel="step", ylabel="value" if len(columns) > 1 else columns[0])
            name_curves(ax)
        return ax

    def to_dict(self) -> dict[str, np.ndarray]:
        """Every column as an array."""
        return {column: self[column] for column in self.columns}

    def to_rows(self) -> list[dict[str, Any]]:
        """One dictionary per record, as `pandas.DataFrame` takes them."""
        return [record.as_row() for record in self.records]

    def __str__(self) -> str:
        """A table with one line per record."""
        columns = [name for name in _SHOWN if name in self.columns and self._says_something(name)]
        rows: list[list[Cell]] = []
        for record in self.records:
            row = record.as_row()
            rows.append([f"{row['step']:g}", *(clean(row[name]) for name in columns[1:])])
        lines = table_lines([_SHOWN[name] for name in columns], rows)
        notes = [f"step {r.step:g}: {r.note}" for r in self.records if r.note]
        return "\n".join([*lines, *notes])

    def _says_something(self, column: str) -> bool:
        return bool(np.any(np.isfinite(self[column].astype(float))))
