# SPDX-License-Identifier: Apache-2.0
"""The parts that all pages of the report share."""

import html
from urllib.parse import quote

from unlazy.experiments.claims import HOLDS, Claim
from unlazy.laziness.pages import STYLE

escape = html.escape


def page(title: str, body: str, *, scripts: tuple[str, ...] = ()) -> str:
    """A whole page; `body` is HTML, the title text."""
    tags = "".join(f'<script defer src="assets/{name}"></script>' for name in scripts)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style>
<link rel="stylesheet" href="assets/report.css">{tags}</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
{body}
</body></html>
"""


def address(path: str) -> str:
    """The path of a file of the site as the value of `href` or `src`."""
    # A name that is no text, which file systems allow, comes with its bytes as surrogates.
    return escape(quote(path, errors="surrogateescape"))


def verdict(claim: Claim) -> str:
    """The verdict on a claim as a coloured word; a mark tells it apart without colours."""
    if not claim.as_expected:
        kind, mark, word = "changed", "!", f"{claim.verdict}, recorded otherwise"
    elif claim.verdict == HOLDS:
        kind, mark, word = "holds", "✓", "holds"
    else:
        kind, mark, word = "refuted", "✗", "refuted, as recorded"
    return f'<span class="badge {kind}"><span aria-hidden="true">{mark}</span> {word}</span>'


def number(value: float) -> str:
    """A number with four digits."""
    return f"{value:.4g}"


def threshold(claim: Claim) -> str:
    """The relation and the threshold of a claim."""
    bound = claim.threshold
    if isinstance(bound, tuple):
        return f"in [{number(bound[0])}, {number(bound[1])}]"
    return f"{claim.relation} {number(bound)}"


def size(count: int) -> str:
    """A number of bytes in words."""
    power = min(max(len(str(count)) - 1, 0) // 3, 3)
    return f"{count / 1000**power:.3g} {('B', 'kB', 'MB', 'GB')[power]}"
