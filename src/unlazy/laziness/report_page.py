# SPDX-License-Identifier: Apache-2.0
"""The report on a model as one page that needs no network and no other file."""

import html
import os
import pathlib
from typing import TYPE_CHECKING

from unlazy.core.disk import replace_file
from unlazy.core.summaries import counted
from unlazy.laziness.measurements.sections import Section, in_words
from unlazy.laziness.pages import document, drawing, table

if TYPE_CHECKING:
    from unlazy.laziness.model_report import Report


def write_page(report: "Report", path: str | os.PathLike[str]) -> None:
    """Write the page, whole or not at all; raises a `StoreError` where it cannot be written."""
    replace_file(pathlib.Path(path), page(report).encode())


def page(report: "Report") -> str:
    """The report as HTML."""
    size = counted(report.parameters, "parameter")
    sections = "\n".join(_section(part) for part in report.sections().values())
    missing = "".join(
        f"<p class='soft'>Not measured: {html.escape(name)}. {html.escape(why)}</p>"
        for name, why in report.missing.items()
    )
    good = f"<p>{html.escape(report.verdict.good)}</p>" if report.verdict.good else ""
    head, _, reasons = report.verdict.lazy.partition(":")
    verdict = f"<p><strong>{html.escape(head)}:</strong>{html.escape(reasons)}</p>{good}"
    about = f"{size}, trained with {report.optimizer}, {report.where}"
    body = drawing(report.plot(), "The measurements, side by side") + sections + missing
    return document(f"Laziness report: {head}", "Is this model lazy?", about, verdict, body)


def _section(section: Section) -> str:
    is_text = [
        all(isinstance(row[k], str) for row in section.rows) for k in range(len(section.columns))
    ]
    rows = [[in_words(cell) for cell in row] for row in section.rows]
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in section.notes)
    return f"""<section><h2>{html.escape(section.title)}</h2>
<p>{html.escape(section.question[0].upper() + section.question[1:])}</p>
<p class="soft">{html.escape(section.formula)}<br>
On {html.escape(section.sample)}, in {section.seconds:.1f} s.</p>
{table(section.columns, rows, is_text)}{notes}
</section>"""
