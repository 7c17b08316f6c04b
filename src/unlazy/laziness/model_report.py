# SPDX-License-Identifier: Apache-2.0
"""The report on a model: what was measured, in words, as a figure and as a page."""

import os
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float64, Int

from unlazy.core.entries import entry
from unlazy.core.panels import Figure, SubFigure
from unlazy.core.summaries import counted
from unlazy.laziness.measurements.feature_quality import FeatureQuality
from unlazy.laziness.measurements.flips import Flips
from unlazy.laziness.measurements.kernel_drift import KernelDrift
from unlazy.laziness.measurements.movement import Movement
from unlazy.laziness.measurements.prediction import Prediction
from unlazy.laziness.measurements.sections import Section, common_prefix
from unlazy.laziness.measurements.taylor_shares import TaylorShares
from unlazy.laziness.measurements.twins import Twins
from unlazy.laziness.verdicts import Verdict


class Cost(eqx.Module):
    """What a measurement was made on, and how long it took."""

    sample: str
    seconds: float


class Report(eqx.Module):
    """How lazily a model was trained, as `diagnose` measures it.

    `print(report)` shows all of it, `plot` draws it, `to_html` writes a page, `to_dict` gives it to
    a program. A measurement that was not made is None; `missing` says why where that is no matter
    of an argument.
    """

    verdict: Verdict
    movement: Movement
    taylor: TaylorShares
    drift: KernelDrift
    flips: Flips | None  # None for a model without ReLUs
    twins: Twins | None  # None without labels
    prediction: Prediction | None  # None without labels and learning rate
    features: FeatureQuality | None
    kernel_start: Float64[np.ndarray, "m m"]  # on `rows`, summed over outputs
    kernel_end: Float64[np.ndarray, "m m"]
    where: str
    parameters: int
    optimizer: str
    rows: Int[np.ndarray, " m"]  # of the samples given, in the kernels
    costs: dict[str, Cost]
    missing: dict[str, str]

    @property
    def prefix(self) -> str:
        """What the names of all layers begin with, such as "params/"; tables leave it out."""
        return common_prefix(layer.name for layer in self.movement.layers)

    def sections(self) -> dict[str, Section]:
        """Every measurement as people read it, in the order of the report."""
        names = "taylor", "drift", "flips", "movement", "features", "twins", "prediction"
        found = {}
        for name in names:
            measured = getattr(self, name)
            if measured is not None:
                cost = self.costs[name]
                section = measured.section().without(self.prefix)
                found[name] = section._replace(sample=cost.sample, seconds=cost.seconds)
        return found

    def __str__(self) -> str:
        """The verdict, then every measurement as a table."""
        size = counted(self.parameters, "parameter")
        head = f"Laziness of a model with {size}, {self.where}"
        parts = [head, self.verdict.lazy]
        parts += [self.verdict.good] if self.verdict.good else []
        parts += [section.as_text() for section in self.sections().values()]
        parts += [f"Not measured: {name}. {why}" for name, why in self.missing.items()]
        return "\n\n".join(parts)

    def __repr__(self) -> str:
        """In one line."""
        return f"Report({self.verdict.kind}, {counted(self.parameters, 'parameter')})"

    @entry
    def to_dict(self) -> dict[str, Any]:
        """The report for JSON; numbers that JSON cannot hold are strings that `float` reads."""
        return {
            "verdict": {
                "kind": self.verdict.kind,
                "order": self.verdict.order,
                "lazy": self.verdict.lazy,
                "good": self.verdict.good,
            },
            "model": {
                "where": self.where,
                "parameters": self.parameters,
                "optimizer": self.optimizer,
            },
            "measurements": {name: part.as_dict() for name, part in self.sections().items()},
            "missing": dict(self.missing),
        }

    @entry
    def plot(self, figure: Figure | SubFigure | None = None) -> Figure:
        """Draw the measurements side by side.

        Args:
            figure: an empty Figure or SubFigure to draw on; None for a new one.

        Returns:
            That figure. A report is no single panel: each measurement draws its own on an `ax`, as
            `report.taylor.plot(ax)`, `report.drift.plot(ax)` and so on.
        """
        from unlazy.laziness.report_figure import report_figure

        return report_figure(self, figure)

    @entry
    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one page that needs nothing else."""
        from unlazy.laziness.report_page import write_page

        write_page(self, path)
