# SPDX-License-Identifier: Apache-2.0
"""The report on a data set in words: the verdict, what to do next, and what was done."""

import math
from typing import TYPE_CHECKING

from unlazy.core.summaries import counted
from unlazy.laziness.label_report.columns import DROPPED, LEVELS
from unlazy.laziness.label_report.suspects import Suspect
from unlazy.laziness.tables import in_columns

if TYPE_CHECKING:
    from unlazy.laziness.label_report.report import LabelReport

_LEARNABLE, _RANDOM = 0.6, 0.9  # ratios below and above which the verdict is plain
_TOO_GOOD = 0.995  # explained variance beyond which a column may give the label away
_CHANCE = 0.05  # of random orders as cheap as this one, beyond which the ratio says nothing
_MOST = 12  # rows named in a sentence


def text(report: "LabelReport") -> str:
    """The whole report, for a terminal."""
    blocks = [
        "\n".join([verdict(report), *(f"- {line}" for line in advice(report))]),
        "\n".join(in_columns(figures(report), left=(0, 1))),
    ]
    if suspects := report.suspects()[:_MOST]:
        rows = [["row, from 0", "label", "the others say", "score"], *map(suspect_cells, suspects)]
        blocks.append("\n".join(in_columns(rows, left=(1, 2))))
    uses = [["column", "used as", "note"], *_shortened(column_cells(report))]
    blocks.append("\n".join(in_columns(uses, left=(0, 1, 2))))
    return "\n\n".join([*blocks, f"Preprocessing: {report.preprocessing}."])


def verdict(report: "LabelReport") -> str:
    """One sentence: are these labels learnable, unless one number hides all others?"""
    if len(report.far):
        return _far(report)
    ratio = f"their complexity is {report.ratio:.2f} of that of the same labels in random order"
    if _are_too_few(report):
        return (
            f"There are too few rows to tell: {ratio}, but {report.chance:.0%} of random orders "
            "cost no more."
        )
    if report.ratio < _LEARNABLE:
        return f"These labels are learnable: {ratio}."
    if report.ratio > _RANDOM:
        return f"These labels look random to the kernel: {ratio}."
    return f"These labels are learnable in part: {ratio}."


def _far(report: "LabelReport") -> str:
    rows = [str(row) for row in report.far[:_MOST]]
    more = f" and {len(report.far) - _MOST} more" if len(report.far) > _MOST else ""
    one = len(rows) == 1
    who = f"Row {rows[0]} alone carries" if one else f"Rows {', '.join(rows)}{more} alone carry"
    return (
        f"{who} {report.far_share:.1%} of the variance of the labels about their median: look at "
        f"{'it' if one else 'them'} first."
    )


def _are_too_few(report: "LabelReport") -> bool:
    return report.chance > _CHANCE and report.ratio < _RANDOM


def advice(report: "LabelReport") -> list[str]:
    """What a person does next, most pressing first."""
    lines = []
    if len(report.far):
        it = "it" if len(report.far) == 1 else "them"
        lines.append(
            f"Correct {it} or leave {it} out, and run again: with {it}, the numbers below say "
            "little of the other rows."
        )
    if len(report.conflicts):
        pairs = ", ".join(f"{i} and {j}" for i, j in report.conflicts[:5].tolist())
        lines.append(
            f"{counted(len(report.conflicts), 'row')} have the inputs of an earlier row and "
            f"another label (such as {pairs}): no function of these columns fits both, and "
            f"{report.unexplained:.1%} of the labels' variance is beyond them all. Their mean "
            "label is used. Look for a column that tells them apart, or relabel them."
        )
    if report.classes and report.accuracy <= report.majority:
        lines.append(
            f"The largest class alone is {report.majority:.1%} of the rows: for left-out rows, the "
            f"accuracy of {report.accuracy:.1%} is no better than to name it always. Look at the "
            "mean over the classes, or weigh the rare ones."
        )
    far = set(report.far.tolist())
    if suspects := [suspect for suspect in report.suspects() if suspect.row not in far]:
        rows = ", ".join(str(suspect.row) for suspect in suspects[:_MOST])
        more = f" and {len(suspects) - _MOST} more" if len(suspects) > _MOST else ""
        looks = "this row looks" if len(suspects) == 1 else f"these {len(suspects)} rows look"
        them = "it" if len(suspects) == 1 else "them"
        lines.append(f"{looks} mislabelled: {rows}{more}. Look at {them}, relabel, and run again.")
    return [line[0].upper() + line[1:] for line in [*lines, *([] if far else [_next(report)])]]


def _next(report: "LabelReport") -> str:
    """What to try, by the same thresholds as the verdict."""
    if report.ratio > _RANDOM:
        return "Look for other columns, or for labels that were shifted against their rows."
    if _are_too_few(report):
        return "Collect more rows before you try a model."
    if report.explained > _TOO_GOOD:
        return "This is nearly perfect: look whether a column gives the label away."
    if report.ratio < _LEARNABLE and report.is_telling:
        model = "NTKClassifier" if report.classes else "NTKRegressor"
        return (
            f"A kernel can learn them: try unlazy.estimators.{model}() before a network of yours."
        )
    return "Clean the labels or add columns first; then see whether a network does more."


def figures(report: "LabelReport") -> list[list[str]]:
    """The numbers of the report, with their names."""
    kind = f"{len(report.classes)} classes" if report.classes else "regression"
    error = report.random_level_error
    rows = [
        ["data", f"{_used(report)}; {counted(report.d, 'coordinate')}; {kind}"],
        ["label complexity", f"{report.label_complexity:.4g}{_bound(report)}"],
        ["in random order", f"{report.random_level:.4g}" + (f" ± {error:.1%}" if error else "")],
        ["ratio", f"{report.ratio:.3f} (near 1: the labels look random to the kernel)"],
        ["by chance", _chance(report)],
        ["left-out rows", _left_out(report)],
        [
            "steps to 10%, 1%",
            f"{report.steps_to_ten_percent}, {report.steps_to_one_percent} of gradient descent",
        ],
        ["costliest rows", ", ".join(map(str, report.costliest(10).tolist()))],
    ]
    if len(report.duplicates):
        merged = f"{counted(len(report.duplicates), 'row')} merged with an equal earlier one"
        rows.append(["duplicates", f"{merged}, {len(report.conflicts)} of them of another label"])
    return rows


def column_cells(report: "LabelReport") -> list[list[str]]:
    """For every column its name, what it became, and a note."""
    cells = []
    for name, use, width, reason in report.columns:
        became = "dropped" if use == DROPPED else counted(width, "column")
        kind = f"{became} of 0 and 1" if use == LEVELS else became
        cells.append([name[:40], "number" if kind == "1 column" else kind, reason])
    return cells


def _shortened(cells: list[list[str]]) -> list[list[str]]:
    """The rows of a table of columns, with many plain numbers as one row."""
    plain = [cell for cell in cells if cell[1] == "number" and not cell[2]]
    if len(plain) <= _MOST:
        return cells
    names = f"{plain[0][0]}, {plain[1][0]}, ..., {plain[-1][0]}"
    others = [cell for cell in cells if cell not in plain]
    return [[f"{len(plain)} columns", "number", names], *others]


def suspect_cells(suspect: Suspect) -> list[str]:
    """A suspect as text."""
    return [
        str(suspect.row),
        _label(suspect.label),
        _label(suspect.prediction),
        f"{suspect.score:.2f}",
    ]


def _label(label: str | float) -> str:
    return label[:40] if isinstance(label, str) else f"{label:.4g}"


def _used(report: "LabelReport") -> str:
    words = counted(report.n, "distinct row")
    words += "" if report.n == report.rows_given else f" of {report.rows_given:,}"
    if report.rows_unlabelled:
        words += f", {report.rows_unlabelled:,} without a label left out"
    return words


def _bound(report: "LabelReport") -> str:
    if not report.is_exact:
        return " at least (rows are too near to each other for more)"
    return " (infinite if rows of equal inputs must all fit)" if len(report.conflicts) else ""


def _left_out(report: "LabelReport") -> str:
    explained = f"{report.explained:.1%} of the variance predicted from all other rows"
    if not report.classes:
        return explained
    return (
        f"{report.accuracy:.1%} predicted right ({report.majority:.1%} by the largest class); "
        f"{report.balanced_accuracy:.1%} as the mean over the classes"
    )


def _chance(report: "LabelReport") -> str:
    if math.isnan(report.chance):
        return "not measured beyond 2000 rows"
    return f"{report.chance:.1%} of random orders of the labels cost no more"
