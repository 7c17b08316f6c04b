# SPDX-License-Identifier: Apache-2.0
"""The report on a data set as one page that needs no network and no other file."""

import html

from unlazy.core.summaries import counted
from unlazy.laziness.label_report.figure import draw
from unlazy.laziness.label_report.report import LabelReport
from unlazy.laziness.label_report.wording import (
    advice,
    column_cells,
    figures,
    suspect_cells,
    verdict,
)
from unlazy.laziness.pages import document, drawing, table

_MOST = 200  # suspects and columns in the tables


def page(report: LabelReport) -> str:
    """The report as HTML."""
    head, _, reason = verdict(report).partition(":")
    lines = "".join(f"<p>{html.escape(line)}</p>" for line in advice(report))
    box = f"<p><strong>{html.escape(head)}:</strong>{html.escape(reason)}</p>{lines}"
    kind = f"{len(report.classes)} classes" if report.classes else "regression"
    about = f"{counted(report.rows_given, 'row')}, {counted(len(report.columns), 'column')}, {kind}"
    label = "Complexity, spectrum and the scores of the rows"
    body = drawing(draw(report), label) + _numbers(report) + _suspects(report) + _columns(report)
    return document(f"Labels: {head}", "Are these labels learnable?", about, box, body)


def _numbers(report: LabelReport) -> str:
    return "<h2>Numbers</h2>" + table(["what", "value"], figures(report), [True, True], words=True)


def _suspects(report: LabelReport) -> str:
    suspects = report.suspects()
    shown = suspects[:_MOST] or report.suspects(10)
    found = counted(len(suspects), "row") + (" looks" if len(suspects) == 1 else " look")
    rule = (
        "The score is the margin by which the prediction from all other rows prefers another "
        "class, where labels are +1 and -1"
        if report.classes
        else "The score is the error of the prediction from all other rows, in units of its "
        "typical size"
    )
    cells = [suspect_cells(suspect) for suspect in shown]
    return (
        f"<h2>Labels to look at</h2><p>{found} mislabelled.</p><p class='soft'>{rule}; above "
        f"{report.threshold:g} a row counts as a suspect. Rows are numbered from 0.</p>"
        + table(["row", "label", "the others say", "score"], cells, [False, True, True, False])
    )


def _columns(report: LabelReport) -> str:
    cells = column_cells(report)
    more = f"<p class='soft'>And {len(cells) - _MOST} more.</p>" if len(cells) > _MOST else ""
    stated = f"<p class='soft'>Preprocessing: {html.escape(report.preprocessing)}.</p>"
    shown = table(["column", "used as", "note"], cells[:_MOST], [True, True, True], words=True)
    return f"<h2>Columns</h2>{stated}{shown}{more}"
