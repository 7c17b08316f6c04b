# SPDX-License-Identifier: Apache-2.0
"""The report on a data set: label complexity, spectrum, speed, costly rows, duplicates."""

import math
import warnings
from typing import TYPE_CHECKING, Any

import equinox as eqx
import numpy as np
from jaxtyping import Float, Float64, Int, Shaped

from unlazy.core.checks import check_count, check_inputs, check_name
from unlazy.core.drawing import COLORS, style
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyWarning
from unlazy.core.json_numbers import json_number
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import relu_gram
from unlazy.labels import leave_one_out
from unlazy.laziness.label_columns import Task, as_labels, encode
from unlazy.linalg import eigh

if TYPE_CHECKING:
    import matplotlib.figure


class LabelReport(eqx.Module):
    """What the kernel H-infinity says about a data set's labels.

    All row numbers are those of the data given; `rows` lists the rows that were used.
    """

    n: int
    d: int
    task: str  # "classify" or "regress"
    classes: tuple[str, ...]  # the first is +1; empty for regression
    rows: Int[np.ndarray, " n"]
    label_complexity: float  # sqrt(2 y^T H^-1 y / n); inf if labels are in conflict
    random_level: float  # what random labels of the same size would have
    eigenvalues: Float64[np.ndarray, " n"]
    energies: Float64[np.ndarray, " n"]  # share of the labels on each eigenvector
    steps_to_ten_percent: int | float  # of the loss, at learning rate 1/lambda_max
    steps_to_one_percent: int | float
    costs: Float64[np.ndarray, " n"]  # what each row adds to y^T H^-1 y
    duplicates: Int[np.ndarray, "p 2"]  # pairs of rows in the same direction
    conflicts: Int[np.ndarray, "q 2"]  # those of them with different labels

    @entry
    def costliest(self, count: int = 10) -> Int[np.ndarray, " k"]:
        """The rows that cost most, most expensive first: candidates for wrong labels."""
        check_count(count, "count")
        return self.rows[np.argsort(-self.costs, kind="stable")[:count]]

    @entry
    def to_dict(self, count: int = 10) -> dict[str, Any]:
        """The report for JSON; numbers that JSON cannot hold are strings that `float` reads."""
        return {
            "n": self.n,
            "d": self.d,
            "task": self.task,
            "classes": list(self.classes),
            "label_complexity": json_number(self.label_complexity),
            "random_level": json_number(self.random_level),
            "largest_eigenvalue": float(self.eigenvalues[0]),
            "smallest_eigenvalue": float(self.eigenvalues[-1]),
            "energy_in_top_tenth": float(self.energies[: max(1, self.n // 10)].sum()),
            "steps_to_ten_percent": json_number(self.steps_to_ten_percent),
            "steps_to_one_percent": json_number(self.steps_to_one_percent),
            "costliest_rows": self.costliest(count).tolist(),
            "duplicates": self.duplicates.tolist(),
            "conflicts": self.conflicts.tolist(),
        }


@entry
def measure(
    x: Float[np.ndarray, "n d"],
    y: Shaped[np.ndarray, "n ..."],
    *,
    task: Task = "auto",
    normalize: bool = True,
    most_rows: int = 5000,
) -> LabelReport:
    r"""How hard the labels are for the kernel of an infinitely wide ReLU network.

    The complexity $\sqrt{2\, y^\top H^{-1} y / n}$ is compared with the mean for labels of random
    sign, $\sqrt{2 \operatorname{tr}(H^{-1}) \overline{y^2} / n}$: near it the labels look random to
    the kernel, far below it they are learnable.

    Source: AR-8 to AR-11, AR-33 and AR-114, arXiv:1901.08584 sections 4 and 5.

    Args:
        x: inputs, one sample per row.
        y: one label per row: classes (numbers, text, dates), numbers, or (n, c) numbers.
        task: "classify" encodes two classes as +1 and -1, more in one such column per class;
            "regress" takes the numbers as they are; "auto" decides by their type.
        normalize: whether to scale every row to unit norm, as the theory has it.
        most_rows: of more rows than this, a random subset of this size is used.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((60, 5))
        >>> report = measure(x, np.where(x[:, 0] > 0, "yes", "no"))
        >>> bool(report.label_complexity < report.random_level), report.classes
        (True, ('no', 'yes'))
    """
    check_inputs(x)
    check_name(task, ["auto", "classify", "regress"], "task")
    if np.shape(y)[:1] != (len(x),):
        raise ValueError(
            f"`y` must have one label a row, {len(x)} in all, got y.shape={np.shape(y)}."
        )
    y = as_labels(y)
    check_count(most_rows, "most_rows")
    rows = np.arange(len(x))
    if len(x) > most_rows:
        rows = np.sort(np.random.default_rng(0).permutation(len(x))[:most_rows])
    x, y = np.asarray(np.asarray(x)[rows], np.float64), y[rows]
    if normalize:
        x = x / np.linalg.norm(x, axis=1, keepdims=True)
    kind, labels, classes = encode(y, task)
    return _report(x, labels, rows, kind, classes)


@entry
def plot_report(report: LabelReport) -> "matplotlib.figure.Figure":
    """Draw the spectrum with the labels on it, and the cost of each row, sorted."""
    from matplotlib.figure import Figure

    with style():
        fig = Figure(figsize=(7.2, 3.0))
        left, right = fig.subplots(1, 2)
        index = np.arange(1, report.n + 1)
        left.plot(index, report.eigenvalues, color="black", ls="-", label="eigenvalue")
        left.plot(
            index,
            np.maximum(report.energies * report.n, 1e-8),
            color=COLORS[0],
            marker="o",
            ls="none",
            ms=2.5,
            alpha=0.6,
            label="energy of the labels (1 if spread evenly)",
        )
        left.set(xscale="log", yscale="log", xlabel="index", title="spectrum and labels on it")
        left.legend(loc="lower left")
        finite = np.sort(report.costs[np.isfinite(report.costs)])[::-1]
        right.plot(np.arange(1, len(finite) + 1), finite, color=COLORS[1], ls="-")
        right.set(xscale="log", xlabel="row, the costliest first", ylabel="share of y' H^-1 y")
        right.set_title("what each row costs")
    return fig


def _report(x, labels, rows, kind: str, classes: tuple[str, ...]) -> LabelReport:
    n = len(x)
    H = relu_gram(x)
    eigen = eigh(H)
    flow = KernelDynamics.from_eigen(eigen, labels)
    duplicates = _parallel_pairs(x)
    conflicting = np.any(labels[duplicates[:, 0]] != labels[duplicates[:, 1]], axis=1)
    with warnings.catch_warnings():
        # Conflicts are part of the report, with all their rows.
        warnings.simplefilter("ignore", UnlazyWarning)
        costs = leave_one_out(H, labels)
    kept = flow.eigenvalues > 1e-12 * flow.eigenvalues[0]
    trace = np.sum(1 / flow.eigenvalues[kept]) * np.sum(labels**2) / n
    return LabelReport(
        n=n,
        d=x.shape[1],
        task=kind,
        classes=classes,
        rows=rows,
        label_complexity=math.sqrt(2 * costs.energy / n),
        random_level=math.sqrt(2 * trace / n),
        eigenvalues=flow.eigenvalues,
        energies=flow.energies,
        steps_to_ten_percent=flow.steps_to(0.1),
        steps_to_one_percent=flow.steps_to(0.01),
        costs=costs.costs,
        duplicates=rows[duplicates],
        conflicts=rows[duplicates[conflicting]],
    )


def _parallel_pairs(x: Float64[np.ndarray, "n d"]) -> Int[np.ndarray, "p 2"]:
    """Pairs of a row and the first one whose cosine with it is 1 to twelve digits (AR-33)."""
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    pairs, seen = [], np.zeros(len(x), bool)
    for start in range(0, len(x), 1024):
        cosine = unit[start : start + 1024] @ unit.T
        for i, j in zip(*np.nonzero(cosine > 1 - 1e-12), strict=True):
            if start + i < j and not seen[j]:
                pairs.append((start + i, j))
                seen[j] = True
    return np.array(pairs, int).reshape(-1, 2)
