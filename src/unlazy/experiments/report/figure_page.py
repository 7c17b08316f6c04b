# SPDX-License-Identifier: Apache-2.0
"""The page of one run: figure, claims, configuration, what it was computed with, downloads."""

import json
from collections.abc import Sequence
from typing import Any

from unlazy.experiments.canonical import encode
from unlazy.experiments.claims import Claim
from unlazy.experiments.report.html import address, escape, number, page, threshold, verdict
from unlazy.experiments.report.panels import Panel
from unlazy.experiments.report.stored import RunWithCells, StoredRun, run_command

_UNKNOWN = "unknown"
_LONGEST = 1e12  # seconds that a cell could take; an integer of a damaged file may be any


def figure_page(
    stored: RunWithCells, downloads: Sequence[str], panels: Sequence[Panel], remark: str = ""
) -> str:
    """The page; `downloads` are addresses of files, `panels` what the figure shows, if known.

    The remark says why some panels, or all, are not among them.
    """
    run = stored.run
    title = run.code.title if run.code else run.experiment
    about = f": {run.code.presets[run.preset].about}" if run.code else ""
    command = run_command(run.experiment, run.preset)
    problem = f'<p class="badge changed">! {escape(run.problem)}</p>' if run.problem else ""
    body = f"""<nav><a href="index.html">All runs</a></nav>
<header><h1>{escape(title)}</h1>
<p class="soft">{escape(f"{run.experiment}, preset {run.preset}{about}")}</p>
{problem}</header>
<main id="content">
{_figure(downloads, panels, title, remark)}
{_claims(run)}
{_details("Configuration", _configuration(stored))}
{_details("Computed with", _environment(stored))}
<section><h2>Downloads</h2>{_downloads(downloads)}
<p>Compute or redraw it: <code>{escape(command)}</code></p>
</section></main>"""
    scripts = ("vega.js", "report.js") if panels else ()
    return page(f"{run.experiment}, {run.preset}", body, scripts=scripts)


def _figure(downloads: Sequence[str], panels: Sequence[Panel], title: str, remark: str) -> str:
    pictures = [name for name in downloads if name.endswith("figure.png")]
    drawn = (
        f'<img class="drawn" src="{address(pictures[0])}" alt="{escape(_in_words(panels, title))}">'
        if pictures
        else "<p>No drawn figure is stored.</p>"
    )
    said = f'<p class="soft">{escape(remark)}</p>' if remark else ""
    if not panels:
        return f"<figure>{drawn}</figure>{said}"
    # Nothing in it can be taken for a tag, not even for the end of the script.
    data = json.dumps(list(panels), separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    return f"""<section class="interactive" aria-label="Interactive figure">
<script type="application/json" id="panels">{data}</script>
<div id="legend" role="group" aria-label="Curves shown"></div>
<div id="figure" class="panels"></div>
<p class="soft">Hover for numbers; drag to move, scroll to zoom, double-click to undo.
Bands, bars and curves are those of the drawn figure.</p>
<noscript>The figure as drawn is below.</noscript>
{said}</section>
<details{" open" if remark else ""}><summary>The figure as drawn</summary>
<figure>{drawn}</figure></details>"""


def _in_words(panels: Sequence[Panel], title: str) -> str:
    """What the figure shows, for those who do not see it."""
    told = []
    for panel in panels:
        names = ", ".join(dict.fromkeys(c["name"] for c in panel["curves"] if c["name"]))
        axes = f"{panel['y']['label'] or 'values'} against {panel['x']['label'] or 'places'}"
        told.append(f"{panel['title']}: {axes}{': ' if names else ''}{names}".lstrip(": "))
    return ". ".join([title, *told])


def _claims(run: StoredRun) -> str:
    if not run.claims:
        return ""
    rows = "".join(_claim(claim) for claim in run.claims)
    return f"""<section><h2>Claims</h2><div class="scroll"><table class="claims">
<thead><tr><th scope="col">id</th><th scope="col" class="text">claim</th>
<th scope="col">measured</th><th scope="col">threshold</th><th scope="col" class="text">verdict</th>
</tr></thead><tbody>{rows}</tbody></table></div></section>"""


def _claim(claim: Claim) -> str:
    note = f' <span class="soft">({escape(claim.note)})</span>' if claim.note else ""
    return (
        f'<tr><th scope="row">{escape(claim.id)}</th>'
        f'<td class="text wide">{escape(claim.sentence)}{note}</td>'
        f"<td>{number(claim.measured)}</td><td>{escape(threshold(claim))}</td>"
        f'<td class="text">{verdict(claim)}</td></tr>'
    )


def _configuration(stored: RunWithCells) -> str:
    code = stored.run.code
    if code is None:
        shown: Any = [cell.identity["config"] for cell in stored.cells]
    else:
        shown = encode(code.presets[stored.run.preset].config)
    return _tree(shown)


def _tree(value: Any) -> str:
    """A configuration as nested lists of names and values."""
    if isinstance(value, dict):
        if set(value) == {"float"}:
            return escape(str(value["float"]))
        name = (
            f'<span class="soft">{escape(str(value["class"]))}</span>' if "class" in value else ""
        )
        items = "".join(
            f"<li>{escape(str(key))}: {_tree(one)}</li>"
            for key, one in value.items()
            if key != "class"
        )
        return f"{name}<ul>{items}</ul>"
    if isinstance(value, list):
        if any(isinstance(one, dict | list) for one in value):
            return f"<ol>{''.join(f'<li>{_tree(one)}</li>' for one in value)}</ol>"
        return escape(", ".join(map(str, value)))
    return escape("none" if value is None else str(value))


def _environment(stored: RunWithCells) -> str:
    metas = [cell.meta for cell in stored.cells]
    if not metas:
        return "<p>No cell is stored.</p>"
    devices = {_text(meta.get("device")) for meta in metas}
    finished = max(_text(meta.get("finished"), "") for meta in metas)
    found = [meta.get("versions") for meta in metas]
    versions = {f"{name} {one}" for some in found for name, one in _object(some).items()}
    rows = {
        "device": ", ".join(sorted(devices)),
        "cells": f"{len(metas)}, {_duration([meta.get('seconds') for meta in metas])}",
        "finished": finished or _UNKNOWN,
        "versions": ", ".join(sorted(versions)) or _UNKNOWN,
    }
    cells = "".join(
        f'<tr><th scope="row">{name}</th><td class="text wide">{escape(value)}</td></tr>'
        for name, value in rows.items()
    )
    return f'<div class="scroll"><table>{cells}</table></div>'


def _text(value: Any, otherwise: str = _UNKNOWN) -> str:
    return value if isinstance(value, str) else otherwise


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _duration(seconds: Sequence[Any]) -> str:
    """The seconds of all cells together; what is no number is counted as unknown."""
    known = [float(one) for one in seconds if isinstance(one, float | int) and abs(one) < _LONGEST]
    unknown = len(seconds) - len(known)
    told = [f"{sum(known):.3g} s in all"] if known else []
    told += [f"time {_UNKNOWN} of {unknown}"] if unknown else []
    return ", ".join(told)


def _downloads(downloads: Sequence[str]) -> str:
    links = "".join(
        f'<li><a href="{address(path)}" download>{escape(path.rpartition("/")[2])}</a></li>'
        for path in downloads
    )
    return f'<ul class="files">{links}</ul>'


def _details(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"
