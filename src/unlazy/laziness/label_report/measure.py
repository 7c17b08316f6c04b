# SPDX-License-Identifier: Apache-2.0
"""Measure a data set: from inputs and labels of any kind to the report on them."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from jaxtyping import Bool, Float64, Int

from unlazy.core.checks import check_count, check_inputs, check_name, short
from unlazy.core.entries import entry
from unlazy.data.frames import as_frame, original_names
from unlazy.data.tables import plain_values
from unlazy.laziness.label_columns import (
    LabelColumns,
    Task,
    encode,
    has_label,
    label_array,
    standardised,
)
from unlazy.laziness.label_report.columns import (
    LEVELS,
    ColumnUse,
    Prepared,
    from_array,
    prepare,
)
from unlazy.laziness.label_report.encoding import STATED_RAW, encode_columns, stated, with_bias
from unlazy.laziness.label_report.far_labels import far_labels
from unlazy.laziness.label_report.report import LabelReport
from unlazy.laziness.label_report.samples import Samples, distinct
from unlazy.laziness.label_report.solves import Answers, solve_for_labels
from unlazy.laziness.label_report.suspects import Judged, judge
from unlazy.linalg.iterative import Progress


class _Inputs(NamedTuple):
    x: Float64[np.ndarray, "m k"]  # rows of unit norm
    width: int  # coordinates without the constant one
    uses: tuple[ColumnUse, ...]
    preprocessing: str


@entry
def measure(
    x: Any,
    y: Any,
    *,
    task: Task = "auto",
    columns: str | Sequence[str] = (),
    preprocess: bool = True,
    most_rows: int | None = None,
    progress: Progress | None = None,
) -> LabelReport:
    r"""How hard the labels are for the kernel of an infinitely wide ReLU network.

    The complexity $\sqrt{2\, y^\top H^{-1} y / n}$ is compared with the mean of the same labels in
    random order, $\sqrt{2\, \overline{y^2} (n \operatorname{tr} H^{-1} - 1^\top H^{-1} 1) /
    (n (n - 1))}$: near it the labels look random to the kernel, far below it they are learnable.

    Labels are centred, so that a constant costs nothing: classes are columns of +1 and -1 less
    their means, numbers are scaled to unit variance. Rows with equal inputs count once, with the
    mean of their labels. `report.suspects()` names the rows whose label is not what all others
    predict, by exact leave-one-out predictions with the ridge that makes these best. A few numbers
    that lie apart from all others and carry half of the labels' variance are named first: ten
    robust deviations off, by a gap that a heavy tail has once in 1000 samples. Beyond 2000
    rows the ridge comes from 1000 of them, and the leading 50 eigenvalues stand for the spectrum;
    beyond 6000 the random level is an estimate, whose error the report states.

    Source: AR-8 to AR-11, AR-33 and AR-114, arXiv:1901.08584 sections 4 and 5.

    Args:
        x: inputs, one sample per row: an array, or an Arrow table, or a pandas or polars frame.
        y: one label per row: classes (numbers, text, dates), numbers, or (n, c) numbers; for a
            table also the name of a column. Rows without a label are left out and counted.
        task: "classify", "regress", or "auto", which decides by the type of the labels.
        columns: of a table, the input columns, or the one; all but `y` if left out.
        preprocess: whether to standardise numbers, encode text, fill what is missing, and append
            a constant coordinate; `report.preprocessing` says it in full. Otherwise `x` must be
            finite numbers, whose rows are only scaled to unit norm.
        most_rows: of more rows than this, a random subset of this size; None for all.
        progress: called as `progress(done, expected)`.

    Raises:
        ValueError: inputs or labels are of another form, or say nothing.
        TypeError: `x` is sparse.

    Example:
        >>> x = np.random.default_rng(0).standard_normal((60, 5))
        >>> report = measure(x, np.where(x[:, 0] > 0, "yes", "no"))
        >>> bool(report.ratio < 0.8), report.classes
        (True, ('no', 'yes'))
    """
    check_name(task, ["auto", "classify", "regress"], "task")
    if most_rows is not None:
        check_count(most_rows, "most_rows", least=2)
    columns = [columns] if isinstance(columns, str) and columns else columns
    table, labels = _separated(x, y)
    rows = _chosen_rows(labels, most_rows)
    _check_draw(labels[has_label(labels)], labels[rows])
    inputs = _inputs(table, rows, columns, preprocess)
    targets = encode(labels[rows], task)
    samples = distinct(inputs.x, targets.columns)
    if len(samples.first) < 3:
        raise ValueError(f"`x` must have three different rows at least, got {len(samples.first)}.")
    centred = standardised(samples.y, targets.task)
    answers = solve_for_labels(samples.x, centred, progress)
    return _report(inputs, targets, samples, centred, answers, rows, has_label(labels))


def _separated(x: Any, y: Any) -> tuple[Any, np.ndarray]:
    """Inputs as an array or an Arrow table, and the labels, which may be one of its columns."""
    table = as_frame(x)
    if isinstance(y, str):
        if table is None:
            raise ValueError(f"`y` must be an array of labels where `x` is an array, got y={y!r}.")
        names = original_names(table.column_names)
        check_name(y, names, "y", "one of the columns")
        if names.count(y) > 1:
            raise ValueError(
                f"`y` must be a name that occurs once, got y={y!r}, which occurs {names.count(y)} "
                "times. Rename all but one."
            )
        return table.drop_columns([y]), label_array(plain_values(table.column(y)))
    if scipy.sparse.issparse(x):
        raise TypeError(
            f"`x` must be a dense array or a frame, got a sparse one of shape {x.shape}. "
            "Pass x.toarray()."
        )
    if table is None:
        x = x if isinstance(x, np.ma.MaskedArray) else np.asarray(x)
    labels = label_array(plain_values(y) if hasattr(y, "chunks") else y)
    count = len(x) if table is None else table.num_rows
    if np.shape(labels)[:1] != (count,):
        raise ValueError(
            f"`y` must have one label per row, {count} in all, got y.shape={np.shape(labels)}."
        )
    return (x if table is None else table), labels


def _chosen_rows(labels: np.ndarray, most_rows: int | None) -> Int[np.ndarray, " m"]:
    rows = np.flatnonzero(has_label(labels))
    if not rows.size:
        raise ValueError(f"`y` must have a label in some row, got none in {len(labels)} rows.")
    if most_rows is not None and len(rows) > most_rows:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most_rows])
    return rows


def _check_draw(labels: np.ndarray, drawn: np.ndarray) -> None:
    """Raise if labels that differ are the same in the rows that were drawn."""
    if len(drawn) < len(labels) and np.all(drawn == drawn[0]) and np.any(labels != drawn[0]):
        label = short(drawn[0].item() if isinstance(drawn[0], np.generic) else drawn[0])
        raise ValueError(
            f"`most_rows` must be large enough for labels that differ, got {len(drawn)}: the draw "
            f"of rows left one class, {label}. Use more rows."
        )


def _inputs(x: Any, rows: np.ndarray, columns: Sequence[str], preprocess: bool) -> _Inputs:
    if isinstance(x, np.ndarray):
        if columns:
            raise ValueError(f"`columns` must be left out where `x` is an array, got {columns!r}.")
        allow_missing = preprocess and x.dtype.kind == "f" and not isinstance(x, np.ma.MaskedArray)
        present = np.where(np.isnan(x), x.dtype.type(1), x) if allow_missing else x
        check_inputs(present, allow_zero_rows=preprocess)
        prepared = from_array(np.asarray(x, np.float64)[rows])
    else:
        prepared = prepare(x.take(rows), columns, rows)
    uses = tuple(p.use for p in prepared)
    if preprocess:
        encoded = encode_columns(prepared)
        return _Inputs(with_bias(encoded), encoded.shape[1], uses, stated(prepared))
    raw = _raw(np.asarray(x, np.float64)[rows] if isinstance(x, np.ndarray) else _numbers(prepared))
    return _Inputs(raw, raw.shape[1], uses, STATED_RAW)


def _numbers(prepared: list[Prepared]) -> Float64[np.ndarray, "m k"]:
    kept = [p for p in prepared if p.values is not None]
    text = [p.use.name for p in kept if p.use.use == LEVELS]
    if text or not kept:
        raise ValueError(
            f"`x` must be columns of numbers for preprocess=False, got {', '.join(text) or 'none'}."
        )
    return np.column_stack([np.asarray(p.values, np.float64) for p in kept])


def _raw(x: Float64[np.ndarray, "m k"]) -> Float64[np.ndarray, "m k"]:
    check_inputs(x)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def _report(
    inputs: _Inputs,
    targets: LabelColumns,
    samples: Samples,
    y: Float64[np.ndarray, "n c"],
    answers: Answers,
    rows: Int[np.ndarray, " m"],
    has: Bool[np.ndarray, " given"],
) -> LabelReport:
    judged = judge(targets, samples, answers, y)
    far = far_labels(targets.columns if targets.task == "regress" else targets.columns[:0])
    return LabelReport(
        n=len(y),
        d=inputs.width,
        task=targets.task,
        classes=targets.classes,
        columns=inputs.uses,
        preprocessing=inputs.preprocessing,
        rows_given=len(has),
        rows_unlabelled=int((~has).sum()),
        rows=rows[samples.first],
        **_complexities(answers, len(y), conflict=len(samples.conflicts) > 0),
        **_left_out(judged, answers, y, targets),
        duplicates=rows[samples.duplicates],
        conflicts=rows[samples.conflicts],
        unexplained=samples.unexplained,
        labelled=rows,
        far=rows[far.rows],
        far_share=far.share,
    )


def _complexities(answers: Answers, n: int, *, conflict: bool) -> dict[str, Any]:
    """The fields of the report on the kernel without a ridge."""
    complexity = math.sqrt(2 * answers.energy / n)
    return {
        "label_complexity": complexity,
        "strict_complexity": math.inf if conflict else complexity,
        "random_level": math.sqrt(2 * answers.shuffled_energy / n),
        "random_level_error": answers.shuffled_error / 2,  # of a square root
        "is_exact": answers.converged,
        "chance": answers.chance,
        "eigenvalues": answers.eigenvalues,
        "energies": answers.energies,
        "steps_to_ten_percent": answers.steps[0],
        "steps_to_one_percent": answers.steps[1],
    }


def _left_out(
    judged: Judged, answers: Answers, y: Float64[np.ndarray, "n c"], targets: LabelColumns
) -> dict[str, Any]:
    """The fields of the report on predictions for left-out rows."""
    is_classes = targets.task == "classify"
    right = float(np.mean(judged.predictions == judged.labels)) if is_classes else math.nan
    majority = float(np.bincount(targets.codes).max() / len(targets.codes)) if is_classes else None
    return judged._asdict() | {
        "ridge": answers.ridge,
        "explained": 1 - float(np.sum(answers.surprises**2) / np.sum(y**2)),
        "accuracy": right,
        "majority": math.nan if majority is None else majority,
        "balanced_accuracy": _mean_recall(judged, targets) if is_classes else math.nan,
        "costs": answers.costs,
    }


def _mean_recall(judged: Judged, targets: LabelColumns) -> float:
    """The share predicted right within each class, averaged over the classes."""
    right = np.bincount(targets.codes, weights=judged.predictions == judged.labels)
    return float(np.mean(right / np.bincount(targets.codes)))
