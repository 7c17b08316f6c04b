# SPDX-License-Identifier: Apache-2.0
"""The report on a data set: how hard its labels are, which rows look mislabelled, what was done."""

import math
import os
import pathlib
from typing import Any

import equinox as eqx
import numpy as np
from jaxtyping import Float64, Int, Shaped

from unlazy.core.checks import check_count
from unlazy.core.disk import replace_file
from unlazy.core.drawing import Axes
from unlazy.core.entries import entry
from unlazy.core.json_numbers import json_number
from unlazy.core.panels import Figure, SubFigure, panel
from unlazy.laziness.label_report.columns import ColumnUse
from unlazy.laziness.label_report.suspects import Suspect, ranked


class LabelReport(eqx.Module):
    """What the kernel H-infinity says about a data set's labels; `print` shows it in words.

    All row numbers are those of the data given, from 0; in a file the first row is the one below
    the names of the columns.
    """

    n: int  # distinct rows
    d: int  # coordinates that they have, without the constant one
    task: str  # "classify" or "regress"
    classes: tuple[str, ...]  # empty for regression
    columns: tuple[ColumnUse, ...]  # what became of every column
    preprocessing: str  # in words
    rows_given: int
    rows_unlabelled: int  # left out for want of a label
    rows: Int[np.ndarray, " n"]  # the first row that each distinct row stands for
    label_complexity: float  # sqrt(2 y^T H^-1 y / n) of the distinct rows
    strict_complexity: float  # inf if duplicates have different labels
    random_level: float  # the same for the same labels in random order
    random_level_error: float  # relative standard error of that; zero if exact
    is_exact: bool  # False where the complexity is a lower bound
    chance: (
        float  # share of 200 random orders of the labels that cost no more; nan beyond 2000 rows
    )
    eigenvalues: Float64[np.ndarray, " k"]  # largest first; all, or the leading ones
    energies: Float64[np.ndarray, " k"]  # share of the labels on each eigenvector
    steps_to_ten_percent: int | float  # of the loss, at learning rate 1/lambda_max
    steps_to_one_percent: int | float
    ridge: float  # with which left-out rows are predicted best
    explained: float  # share of the labels' variance that is predicted for left-out rows
    accuracy: float  # share of left-out rows whose class is predicted; nan for regression
    majority: float  # share of the most frequent class; nan for regression
    balanced_accuracy: float  # the accuracy within each class, averaged; nan for regression
    costs: Float64[np.ndarray, " n"]  # what each row adds to y^T (H + ridge)^-1 y
    duplicates: Int[np.ndarray, "p 2"]  # a row and the earlier one with the same inputs
    conflicts: Int[np.ndarray, "q 2"]  # those of them with different labels
    unexplained: float  # share of the labels' variance within duplicates
    labelled: Int[np.ndarray, " m"]  # the rows that have a label and were used
    labels: Shaped[np.ndarray, " m"]  # theirs
    predictions: Shaped[np.ndarray, " m"]  # what all other rows say
    scores: Float64[np.ndarray, " m"]  # how far the label is from the prediction
    threshold: float  # the score from which a row is a suspect
    far: Int[np.ndarray, " r"]  # rows whose number lies apart from all others, the farthest first
    far_share: float  # of the labels' variance about their median, that they carry

    @property
    def ratio(self) -> float:
        """The complexity in units of that of the same labels in random order."""
        return self.label_complexity / self.random_level

    @property
    def is_telling(self) -> bool:
        """Whether these labels are told from random ones: by their cost, and for left-out rows."""
        predicts = self.accuracy > self.majority if self.classes else self.explained > 0
        return not self.chance > 0.05 and predicts

    @entry
    def suspects(self, count: int | None = None) -> list[Suspect]:
        """Rows that look mislabelled, the clearest first; or the `count` of highest score.

        There are none where the labels as a whole cannot be told from random ones, but for numbers
        so far from all others that these alone make half of the variance: they come first.

        For classes the score is the margin by which the leave-one-out prediction prefers another
        class, where labels are +1 and -1, and a suspect has more than 0.75. For numbers it is the
        leave-one-out error in units of its typical size, and a suspect has more than 4.
        """
        order = ranked(self.scores)
        if count is None:
            order = order[self.scores[order] > self.threshold] if self.is_telling else order[:0]
            far = np.flatnonzero(np.isin(self.labelled, self.far))
            order = np.concatenate([far[ranked(self.scores[far])], order[~np.isin(order, far)]])
        else:
            check_count(count, "count")
            order = order[:count]
        return [
            Suspect(
                int(self.labelled[i]),
                self.labels[i].item(),
                self.predictions[i].item(),
                float(self.scores[i]),
            )
            for i in order
        ]

    @entry
    def costliest(self, count: int = 10) -> Int[np.ndarray, " k"]:
        """The distinct rows that cost most, the most expensive first."""
        check_count(count, "count")
        return self.rows[np.argsort(-self.costs, kind="stable")[:count]]

    @entry
    def to_dict(self, count: int = 10) -> dict[str, Any]:
        """The report for JSON: infinite numbers are strings that `float` reads, nan is None."""
        plain = ("n", "d", "task", "preprocessing", "rows_given", "rows_unlabelled", "is_exact")
        numbers = (
            "label_complexity", "strict_complexity", "random_level", "random_level_error", "ratio",
            "chance", "explained", "accuracy", "majority", "balanced_accuracy", "unexplained",
            "ridge", "steps_to_ten_percent", "steps_to_one_percent",
        )  # fmt: skip
        return (
            {name: getattr(self, name) for name in plain}
            | {name: _or_none(getattr(self, name)) for name in numbers}
            | {
                "classes": list(self.classes),
                "columns": [use._asdict() for use in self.columns],
                "eigenvalues": self.eigenvalues[:count].tolist(),
                "energies": self.energies[:count].tolist(),
                "costliest_rows": self.costliest(count).tolist(),
                "suspect_count": len(self.suspects()),
                "suspects": [suspect._asdict() for suspect in self.suspects()[:count]],
                "far_rows": self.far.tolist(),
                "duplicates": self.duplicates.tolist(),
                "conflicts": self.conflicts.tolist(),
            }
        )

    @entry
    def plot(self, figure: Figure | SubFigure | None = None) -> Figure:
        """Draw the complexity beside the random level, the spectrum, and the scores of the rows.

        Args:
            figure: an empty Figure or SubFigure to draw on; None for a new one.

        Returns:
            That figure. A report is no single panel: `plot_complexity(ax)`, `plot_spectrum(ax)` and
            `plot_scores(ax)` draw one each.
        """
        from unlazy.laziness.label_report.figure import draw

        return draw(self, figure)

    @entry
    def plot_complexity(self, ax: Axes | None = None) -> Axes:
        """Draw the complexity of the labels beside that of the same labels in random order.

        Args:
            ax: where to draw; None for a new figure, which is `plot_complexity().figure`.
        """
        from unlazy.laziness.label_report.figure import draw_complexity

        with panel(ax) as ax:
            draw_complexity(ax, self)
        return ax

    @entry
    def plot_spectrum(self, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues, and which share of the labels lies beyond each eigenvector.

        Args:
            ax: where to draw; None for a new figure, which is `plot_spectrum().figure`.
        """
        from unlazy.laziness.label_report.figure import draw_spectrum

        with panel(ax) as ax:
            draw_spectrum(ax, self)
        return ax

    @entry
    def plot_scores(self, ax: Axes | None = None) -> Axes:
        """Draw how far each label is from its prediction, the most suspect row first.

        Args:
            ax: where to draw; None for a new figure, which is `plot_scores().figure`.
        """
        from unlazy.laziness.label_report.figure import draw_scores

        with panel(ax) as ax:
            draw_scores(ax, self)
        return ax

    @entry
    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one page that needs no network, whole or not at all."""
        from unlazy.laziness.label_report.page import page

        replace_file(pathlib.Path(path), page(self).encode())

    def __str__(self) -> str:
        from unlazy.laziness.label_report.wording import text

        return text(self)


def _or_none(value: float | int) -> float | int | str | None:
    """A number for JSON; None for nan, which says that it does not apply."""
    return None if math.isnan(value) else json_number(value)
