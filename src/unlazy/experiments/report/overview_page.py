# SPDX-License-Identifier: Apache-2.0
"""The overview: papers, figures and verdicts."""

from collections.abc import Sequence

from unlazy.experiments.claims import HOLDS
from unlazy.experiments.report.html import address, escape, page
from unlazy.experiments.report.stored import StoredRun


def overview_page(runs: Sequence[StoredRun], left_out: Sequence[str] = ()) -> str:
    """The first page of the report; `left_out` are sentences about what is not shown.

    Runs with verdicts that are not as recorded come first, and so do their papers.
    """
    papers: dict[str, list[StoredRun]] = {}
    for run in sorted(runs, key=lambda run: all(claim.as_expected for claim in run.claims)):
        papers.setdefault(run.experiment.partition("/")[0], []).append(run)
    claims = [claim for run in runs for claim in run.claims]
    changed = sum(not claim.as_expected for claim in claims)
    told = f"Verdicts that are not as recorded: {changed}." if changed else "All are as recorded."
    holding = sum(claim.verdict == HOLDS for claim in claims)
    body = f"""<header><h1>Stored runs</h1>
<p class="soft">{len(runs)} {"run" if len(runs) == 1 else "runs"} of {len(papers)}
{"paper" if len(papers) == 1 else "papers"}; {len(claims)} claims, of which {holding} hold and
{len(claims) - holding} are refuted.</p></header>
<main id="content"><div class="verdict"><p><strong>{told}</strong></p></div>
{"".join(f'<p class="badge changed">! {escape(sentence)}</p>' for sentence in left_out)}
{"".join(_paper(paper, group) for paper, group in papers.items())}</main>"""
    return page("unlazy: stored runs", body)


def _paper(paper: str, runs: Sequence[StoredRun]) -> str:
    cards = "".join(_card(run) for run in runs)
    return f'<section><h2>{escape(paper)}</h2><ul class="cards">{cards}</ul></section>'


def _card(run: StoredRun) -> str:
    name = run.experiment.partition("/")[2] or run.experiment
    title = run.code.title if run.code else name
    picture = (
        f'<img src="{address(f"files/{run.slug}/figure.png")}" alt="" loading="lazy">'
        if (run.folder / "figure.png").is_file()
        else ""
    )
    problem = f'<p class="badge changed">! {escape(run.problem)}</p>' if run.problem else ""
    return f"""<li><a href="{address(run.slug)}.html">{picture}
<span class="name">{escape(name)}, {escape(run.preset)}</span></a>
<p>{escape(title)}</p><p class="soft">{_counts(run)}</p>{problem}</li>"""


def _counts(run: StoredRun) -> str:
    holding = sum(claim.verdict == HOLDS for claim in run.claims)
    refuted = len(run.claims) - holding
    changed = sum(not claim.as_expected for claim in run.claims)
    parts = [f'<span class="badge holds">✓ {holding} hold</span>'] if holding else []
    parts += [f'<span class="badge refuted">✗ {refuted} refuted</span>'] if refuted else []
    parts += [f'<span class="badge changed">! {changed} not as recorded</span>'] if changed else []
    return " ".join(parts) or "no claims"
