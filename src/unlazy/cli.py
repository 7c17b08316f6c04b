# SPDX-License-Identifier: Apache-2.0
"""The command line: thin, no logic.

Standard output has only the result; everything else goes to standard error. Heavy modules are
imported where they are used, so that `--help` is quick. `EXIT_CODES` lists the exit codes.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unlazy import options, surroundings
from unlazy.core import streams
from unlazy.core.errors import (
    UnlazyError,
    WorkingFolderError,
)
from unlazy.core.interrupts import INTERRUPTS

if TYPE_CHECKING:
    from unlazy.experiments import Experiment

EXIT_CODES = {
    0: "all is well",
    1: "the verdict on a claim is not the recorded one, or doctor found a fault",
    2: "a mistake or an error, which one line on standard error explains",
    66: "the working folder has been deleted",
    74: "standard output is closed or full",
    130: "interrupted, as by Ctrl-C; 143 when ended by SIGTERM",
    141: "the reader of the output went away, as head does",
}

TASKS = ("auto", "classify", "regress")

app = typer.Typer(
    cls=options.Group,
    epilog="Exit codes: " + "; ".join(f"{code}, {what}" for code, what in EXIT_CODES.items()) + ".",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Out = Annotated[
    Path,
    typer.Option(
        envvar="UNLAZY_OUT",
        metavar="DIR",
        parser=options.folder,
        help="Where results are stored and figures drawn.",
    ),
]
Html = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as a page.")]


def _print_version(wanted: bool) -> bool:
    if not wanted:
        return wanted
    from unlazy import __version__

    typer.echo(f"unlazy {__version__}")
    raise typer.Exit


Version = Annotated[
    bool,
    typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version."),
]


@app.callback()
def start(version: Version = False) -> None:
    """Measure how lazily a neural network trains, and train it beyond."""


@app.command("list", cls=options.Command)
def list_figures(as_json: Json = False) -> int:
    """List the papers' figures, their presets and how long each takes."""
    from unlazy import papers
    from unlazy.experiments import rendering

    figures = [papers.get(name) for name in papers.names()]
    if as_json:
        streams.print_json({"figures": [rendering.figure_dict(figure) for figure in figures]})
    else:
        rendering.show_figures(surroundings.console(), figures)
    return 0


@app.command(cls=options.Command)
@options.named({"name": "NAME"})
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="Figures, such as arora2019/figure1.",
            autocompletion=options.complete_figure,
        ),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All figures.")] = False,
    preset: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The size: smoke, quick, paper; unlazy list shows all.",
            autocompletion=options.complete_preset,
        ),
    ] = "quick",
    out: Out = Path("runs"),
    force: Annotated[bool, typer.Option("--force", help="Compute stored cells again.")] = False,
    tables: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", parser=options.folder, help="Take cells from the tables of a report."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Cells at a time.", show_default="1, or up to 6 on a GPU"
        ),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Compute in so many processes.", show_default="this one"
        ),
    ] = None,
    scheduler: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Compute on a Dask cluster: tcp://host:8786."),
    ] = None,
    as_json: Json = False,
) -> int:
    """Compute figures, or resume them; draw them, and check what their papers say of them."""
    from unlazy.experiments import rendering, run_experiments

    advice = f"finished cells are stored in '{out}', and the same command resumes after them."
    with surroundings.interruptible(advice), contextlib.ExitStack() as until_end:
        # Before JAX is imported, and so before the figures are.
        progress = surroundings.reporter(until_end)
        experiments = _chosen(names, every, preset, as_json=as_json)
        until_end.enter_context(surroundings.aside(as_json))
        found = run_experiments(
            experiments,
            preset,
            out=out,
            force=force,
            tables=tables,
            jobs=jobs,
            scheduler=scheduler,
            workers=workers,
            progress=progress,
        )
        until_end.callback(found.close)
        reports = []
        for report in found:
            reports.append(report)
            if not as_json:
                rendering.show_report(surroundings.console(), report)
    if as_json:
        order = [experiment.name for experiment in experiments]
        reports.sort(key=lambda report: order.index(report.experiment))
        streams.print_json({"figures": [report.to_dict() for report in reports]})
    return 0 if all(report.ok for report in reports) else 1


@app.command(cls=options.Command)
@options.named({"preprocess=False": "--raw", "most_rows": "--rows"})
@surroundings.ends_promptly
def measure(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A .csv, .tsv, .parquet or .npz; also .csv.gz.",
            autocompletion=options.complete_file(
                ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".npz"
            ),
        ),
    ],
    x: Annotated[
        str, typer.Option(metavar="NAMES", help="Input columns, joined by commas; or an array.")
    ] = "",
    y: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Column or array of the labels.", show_default="y"),
    ] = None,
    task: Annotated[
        str,
        typer.Option(
            metavar="TASK",
            help="classify, regress, or auto by the labels.",
            callback=options.one_of(*TASKS),
            autocompletion=options.complete_from(*TASKS),
        ),
    ] = "auto",
    raw: Annotated[
        bool, typer.Option("--raw", help="Numbers as they are; only scale rows to unit norm.")
    ] = False,
    rows: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Use this many rows, at random.", show_default="all"),
    ] = None,
    top: Annotated[
        int, typer.Option(min=1, metavar="N", help="How many rows to name in the JSON.")
    ] = 10,
    html: Html = None,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> int:
    """Measure your own data: are its labels learnable, and which rows look mislabelled?"""
    surroundings.check_files(html, None, out)
    with contextlib.ExitStack() as until_end:
        surroundings.keep_programs(until_end)
        # Only now: they import JAX, which is to know where to keep programs.
        from unlazy.experiments import save_figure
        from unlazy.laziness.label_report.files import measure_file

        with surroundings.aside(as_json), surroundings.bar(f"measuring {file.name}") as progress:
            report = measure_file(
                file,
                x=[name for name in x.split(",") if name],
                y=y,
                task=task,
                preprocess=not raw,
                most_rows=rows,
                progress=progress,
            )
    figures = save_figure(report.plot(), out / "measure", file.name.split(".")[0])
    if html is not None:
        report.to_html(html)
    written = {"figures": [str(path) for path in figures]}
    if as_json:
        streams.print_json(report.to_dict(top) | written | ({"page": str(html)} if html else {}))
    else:
        lines = [f"figure: {path}" for path in figures] + ([f"page: {html}"] if html else [])
        sys.stdout.write(f"{report}\n\n" + "\n".join(lines) + "\n")
    return 0


@app.command(cls=options.Command)
def diagnose(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A script, run.py or run.py:function, or module:function. The function, "
            "`diagnose` by default, takes no arguments. It returns the arguments of ul.diagnose "
            "as a mapping, or as a tuple (f, params_start, params_end, x, y), or a report.",
            autocompletion=options.complete_file(".py"),
        ),
    ],
    html: Html = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw it, as .png or .svg.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            callback=options.positive,
            help="About how long to measure.",
            show_default="60",
        ),
    ] = None,
    memory: Annotated[
        float | None,
        typer.Option(
            metavar="N",
            callback=options.positive,
            help="GiB for gradients.",
            show_default="2, or most of an accelerator's",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Diagnose your own model: how lazily was it trained, and would a kernel do as well?"""
    surroundings.check_files(html, plot)
    with contextlib.ExitStack() as until_end:
        surroundings.keep_programs(until_end)
        # Only now: they import JAX, which is to know where to keep programs.
        from unlazy.experiments import figures
        from unlazy.laziness import scripts

        with surroundings.aside(True):
            given = scripts.described(target)
            bytes_ = None if memory is None else memory * 2**30
            with surroundings.bar(f"diagnosing {target}") as progress:
                report = scripts.report_on(
                    given, target, seconds=seconds, memory=bytes_, progress=progress
                )
    if html is not None:
        report.to_html(html)
    if plot is not None:
        figures.write_figure(report.plot(), plot)
    files = {"page": html, "figure": plot}
    written = {name: str(path) for name, path in files.items() if path is not None}
    if as_json:
        streams.print_json(report.to_dict() | written)
    else:
        lines = [str(report), *(f"{name}: {path}" for name, path in written.items())]
        sys.stdout.write("\n\n".join(lines) + "\n")
    return 0


@app.command(cls=options.Command)
def report(
    out: Out = Path("runs"),
    to: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            parser=options.folder,
            help="The folder to write to.",
            show_default="report, in that of --out",
        ),
    ] = None,
    as_json: Json = False,
) -> int:
    """Write a site over all stored runs: figures to zoom into, claims, tables to download."""
    from unlazy import papers
    from unlazy.experiments import write_report

    def find(name: str) -> "Experiment | None":
        return papers.get(name) if name in papers.names() else None

    with surroundings.aside(as_json), surroundings.bar("report") as progress:
        site = write_report(out, to, find=find, progress=progress)
    if as_json:
        streams.print_json(site.to_dict())
    else:
        sys.stdout.write(f"{site}\n")
    return 0


@app.command(cls=options.Command)
def doctor(out: Out = Path("runs"), as_json: Json = False) -> int:
    """Show versions, devices, precision and the data sets found, and check that float64 works."""
    from unlazy.experiments import rendering
    from unlazy.experiments.doctor import examine

    findings = examine(out)
    if as_json:
        streams.print_json(findings)
    else:
        rendering.show_findings(surroundings.console(), findings)
    return 0 if findings["ok"] else 1


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the entry point of `unlazy`."""
    arguments = sys.argv[1:] if args is None else list(args)
    with streams.guarded(), INTERRUPTS.watched():
        try:
            with surroundings.interruptible():
                code = _call(arguments)
        except Exception as error:
            INTERRUPTS.settle()
            code = surroundings.fail_with(error, as_json="--json" in arguments)
    sys.exit(code)


def _call(arguments: list[str]) -> Any:
    """Run the command and flush its output; returns its exit code."""
    streams.check_output()
    try:
        os.getcwd()
    except FileNotFoundError as error:
        raise WorkingFolderError(
            "the working folder has been deleted. Change to one that exists."
        ) from error
    code = app(arguments or ["--help"], prog_name="unlazy", standalone_mode=False)
    sys.stdout.flush()
    return code


def _chosen(
    names: list[str] | None, every: bool, preset: str, *, as_json: bool
) -> "list[Experiment]":
    """The chosen figures; raises before the first is computed if one lacks the preset."""
    from unlazy import papers

    if bool(names) == every:
        known = ", ".join(papers.names())
        raise UnlazyError(f"Give either `NAME` or `--all`: unlazy run NAME. Known: {known}.")
    with surroundings.aside(as_json):
        experiments = [papers.get(name) for name in names or papers.names()]
        for experiment in experiments:
            experiment.preset(preset)
    return experiments
