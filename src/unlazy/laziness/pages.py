# SPDX-License-Identifier: Apache-2.0
"""The look that all reports share as pages, which need no network and no other file."""

import html
import io
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import matplotlib.figure

STYLE = """
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
.words td { white-space: normal; overflow-wrap: anywhere; min-width: 5.5rem; }
thead th { position: sticky; top: 0; background: var(--paper); }
@media (max-width: 40rem) { body { padding: 1rem .75rem 3rem; font-size: 15px; }
  table { font-size: .82rem; } th, td { padding: .2rem .45rem; } }
@media print { .scroll { max-height: none; } figure svg { min-width: 0; } }
"""


def document(title: str, heading: str, about: str, verdict: str, body: str) -> str:
    """A whole page: its heading, a line about it, the verdict in a box, then what follows.

    `verdict` and `body` are HTML, the rest is text.
    """
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{html.escape(heading)}</h1>
<p class="soft">{html.escape(about)}</p>
<div class="verdict">{verdict}</div>
{body}
</body></html>
"""


def drawing(figure: "matplotlib.figure.Figure", label: str) -> str:
    """A figure inside the page."""
    target = io.StringIO()
    figure.savefig(target, format="svg")
    text = target.getvalue()
    svg = text[text.index("<svg") :]
    return f'<figure role="img" aria-label="{html.escape(label)}">{svg}</figure>'


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    is_text: Sequence[bool],
    *,
    words: bool = False,
) -> str:
    """A table that scrolls by itself; columns of text stand to the left, `words` wrap."""
    head = _cells("th", columns, is_text)
    body = "".join(f"<tr>{_cells('td', row, is_text)}</tr>" for row in rows)
    kind = " class=words" if words else ""
    return (
        f'<div class="scroll"><table{kind}><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )


def _cells(tag: str, cells: Iterable[str], is_text: Sequence[bool]) -> str:
    return "".join(
        f"<{tag}{' class=text' if text else ''}>{html.escape(cell)}</{tag}>"
        for cell, text in zip(cells, is_text, strict=True)
    )
