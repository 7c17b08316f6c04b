# SPDX-License-Identifier: Apache-2.0
"""Text for people: the claims of a run, the list of figures, the findings of the doctor."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from unlazy.experiments.claims import HOLDS, Claim
from unlazy.experiments.experiment import Experiment
from unlazy.experiments.passes import RunReport


def claims_table(claims: Sequence[Claim]) -> Table:
    """A table with one row per claim: what was said, what was measured, and the verdict."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("id", no_wrap=True)
    table.add_column("claim", ratio=1)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("threshold", no_wrap=True)
    table.add_column("verdict", max_width=22)
    for claim in claims:
        table.add_row(
            # Text, not str: in a str rich would take the interval [0, 1] for markup.
            Text(claim.id),
            Text(claim.sentence) + Text(f" ({claim.note})" if claim.note else "", style="dim"),
            Text(_number(claim.measured)),
            Text(threshold_text(claim)),
            Text(claim.outcome, style=_style(claim)),
        )
    return table


def threshold_text(claim: Claim) -> str:
    """The relation and the threshold: `<= 0.1` or `in [0.2, 0.4]`."""
    if isinstance(claim.threshold, tuple):
        low, high = claim.threshold
        return f"in [{_number(low)}, {_number(high)}]"
    return f"{claim.relation} {_number(claim.threshold)}"


def show_report(console: Console, report: RunReport) -> None:
    """Print the notes of a run, its claims, where the figure is, and how long it took."""
    _lines(console, (f"note: {note}" for note in report.notes))
    if report.claims:
        console.print(claims_table(report.claims))
    _lines(console, (f"figure: {path}" for path in report.figures))
    held = sum(claim.as_expected for claim in report.claims)
    verdicts = f"verdicts as recorded: {held} of {len(report.claims)}"
    cells = f"cells computed: {report.computed}, reused: {report.reused}"
    _lines(console, [f"{verdicts}; {cells}; {report.seconds:.1f} s"])


def show_figures(console: Console, experiments: Sequence[Experiment]) -> None:
    """Print the figures, each with a row per preset: its name, what it computes, how long."""
    for experiment in experiments:
        console.print(Text(experiment.name, style="bold"))
        console.print(Padding(Text(experiment.title), (0, 0, 0, 2)))
        console.print(presets_table(experiment))
        console.print()


def presets_table(experiment: Experiment) -> Table:
    """A table with one row per preset, of the same columns for every figure."""
    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    table.add_column(width=2)
    table.add_column(width=10, no_wrap=True)
    table.add_column(ratio=3)
    table.add_column(ratio=2)
    for name, preset in experiment.presets.items():
        table.add_row("", Text(name), Text(preset.about), Text(preset.takes))
    return table


def figure_dict(experiment: Experiment) -> dict[str, Any]:
    """A figure and its presets for JSON."""
    presets = {
        name: {"about": preset.about, "takes": preset.takes}
        for name, preset in experiment.presets.items()
    }
    return {
        "name": experiment.name,
        "title": experiment.title,
        "version": experiment.version,
        "presets": presets,
    }


def show_findings(console: Console, findings: Mapping[str, Any]) -> None:
    """Print the findings of the doctor, one per line; those that fail it begin with FAULT."""
    precision, out = findings["precision"], findings["out"]
    fails = "FAULT: it fails on the default device"
    rows = [("float64", "works" if precision["float64_works"] else fails)]
    rows += [("device", device) for device in findings["devices"]]
    rows += [
        (
            "x64",
            "on" if precision["x64"] else "off (the kernel code turns it on where it needs it)",
        ),
        ("matmul", f"{precision['default_matmul_precision']} precision for float32"),
        ("", f"relative error {precision['float32_product_error']:.1e} in float32"),
        ("", f"relative error {precision['float64_product_error']:.1e} in float64"),
    ]
    rows += [(name, where or "not found") for name, where in findings["data"].items()]
    problem, fine = out["problem"], f"{out['folder']} can be written"
    rows += [("output", f"FAULT: {problem}" if problem else fine)]
    rows += list(findings["versions"].items())
    absent = "not installed; optional"
    rows += [(name, version or absent) for name, version in findings["optional"].items()]
    _lines(console, (f"{name:<14} {value}" for name, value in rows))


def _lines(console: Console, lines: Iterable[str]) -> None:
    """Print lines as they are: unwrapped, so that a path can be copied, and without markup."""
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)


def _number(value: float | int) -> str:
    return f"{value:.4g}"


def _style(claim: Claim) -> str:
    if not claim.as_expected:
        return "bold red"
    return "green" if claim.verdict == HOLDS else "yellow"
