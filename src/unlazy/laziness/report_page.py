# SPDX-License-Identifier: Apache-2.0
"""The report on a model as one page that needs no network and no other file."""

import html
import io
import os
import pathlib
from typing import TYPE_CHECKING

from unlazy.core.disk import replace_file
from unlazy.core.summaries import counted
from unlazy.laziness.measurements.sections import Section, in_words

if TYPE_CHECKING:
    from unlazy.laziness.model_report import Report

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1a1a; --paper: #ffffff; --soft: #666666;
  --line: #dddddd; --panel: #f6f7f9; --accent: #0072B2; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8e8e8; --paper: #16181c; --soft: #a0a4ab;
  --line: #33373e; --panel: #1f2228; --accent: #56B4E9; } }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; color: var(--ink);
  background: var(--paper); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2rem 0 .25rem; }
.soft { color: var(--soft); font-size: .9rem; }
.verdict { background: var(--panel); border-left: 4px solid var(--accent); padding: .75rem 1rem;
  margin: 1rem 0; } .verdict p { margin: .4rem 0; }
.scroll { overflow: auto; max-height: 30rem; }
figure { margin: 1.5rem 0; background: #ffffff; border-radius: 4px; overflow-x: auto; }
figure svg { width: 100%; min-width: 44rem; height: auto; display: block; }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0; }
th, td { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; white-space: nowrap; }
th:first-child, td:first-child, .text { text-align: left; }
th { font-weight: 600; }
thead th { position: sticky; top: 0; background: var(--paper); }
@media (max-width: 40rem) { body { padding: 1rem .75rem 3rem; font-size: 15px; }
  table { font-size: .82rem; } th, td { padding: .2rem .45rem; } }
@media print { .scroll { max-height: none; } figure svg { min-width: 0; } }
"""


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
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Laziness report: {html.escape(head)}</title><style>{_STYLE}</style></head><body>
<h1>Is this model lazy?</h1>
<p class="soft">{html.escape(f"{size}, trained with {report.optimizer}, {report.where}")}</p>
<div class="verdict"><p><strong>{html.escape(head)}:</strong>{html.escape(reasons)}</p>{good}</div>
<figure role="img" aria-label="The measurements, side by side">{_drawing(report)}</figure>
{sections}{missing}
</body></html>
"""


def _drawing(report: "Report") -> str:
    target = io.StringIO()
    report.plot().savefig(target, format="svg")
    text = target.getvalue()
    return text[text.index("<svg") :]


def _section(section: Section) -> str:
    is_text = [
        all(isinstance(row[k], str) for row in section.rows) for k in range(len(section.columns))
    ]
    head = _cells("th", section.columns, is_text)
    body = "".join(f"<tr>{_cells('td', map(in_words, row), is_text)}</tr>" for row in section.rows)
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in section.notes)
    return f"""<section><h2>{html.escape(section.title)}</h2>
<p>{html.escape(section.question[0].upper() + section.question[1:])}</p>
<p class="soft">{html.escape(section.formula)}<br>
On {html.escape(section.sample)}, in {section.seconds:.1f} s.</p>
<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}
</section>"""


def _cells(tag, cells, is_text) -> str:
    return "".join(
        f"<{tag}{' class=text' if text else ''}>{html.escape(cell)}</{tag}>"
        for cell, text in zip(cells, is_text, strict=True)
    )
