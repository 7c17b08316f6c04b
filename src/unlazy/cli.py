# SPDX-License-Identifier: Apache-2.0
"""The command line: thin, no logic.

Exit codes: 0 all well, 1 a verdict or a self-check is not as it should be, 2 an error that the
message explains, 130 interrupted. Standard output has the result alone; all else goes to standard
error. What is heavy to import is imported where it is used, so that `--help` is quick.
"""

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unlazy.errors import UnlazyError

if TYPE_CHECKING:
    import rich.console

app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
Out = Annotated[
    Path, typer.Option(envvar="UNLAZY_OUT", help="Where results are stored and figures drawn.")
]
# Every mistake on the command line is of this kind, whether typer brings its own click or not.
_UsageError = typer.BadParameter.__bases__[0]


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


@app.command("list")
def list_figures(as_json: Json = False) -> int:
    """List the papers' figures, their presets and how long each takes."""
    from unlazy import papers
    from unlazy.experiments import rendering

    figures = [papers.get(name) for name in papers.names()]
    if as_json:
        _print_json({"figures": [rendering.figure_dict(figure) for figure in figures]})
    else:
        _console().print(rendering.figures_table(figures))
    return 0


@app.command()
def run(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME", help="Figures, such as arora2019/figure1."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="All figures, one after the other.")] = False,
    preset: Annotated[
        str, typer.Option(help="The size: smoke, quick, paper; unlazy list shows all.")
    ] = "quick",
    out: Out = Path("runs"),
    force: Annotated[bool, typer.Option("--force", help="Compute stored cells again.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, help="Cells at a time.", show_default="1, or up to 6 on a GPU"),
    ] = None,
    as_json: Json = False,
) -> int:
    """Compute figures, or resume them; draw them, and check what their papers say of them."""
    _keep_compiled(out)
    from unlazy import papers
    from unlazy.experiments import rendering, reporter_for, run_experiment

    if out == Path():
        raise UnlazyError("`--out` must name a folder, got an empty name.")
    if bool(names) == every:
        known = ", ".join(papers.names())
        raise UnlazyError(f"Give either `NAME` or `--all`: unlazy run NAME. Known: {known}.")
    # A library that prints must not spoil the JSON.
    aside = contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext()
    reports = []
    with aside:
        experiments = [papers.get(name) for name in names or papers.names()]
        for experiment in experiments:
            experiment.preset(preset)  # raises, before the first figure is computed
    try:
        for experiment in experiments:
            with aside:
                progress = reporter_for(sys.stderr)
                report = run_experiment(
                    experiment, preset, out=out, force=force, jobs=jobs, progress=progress
                )
            reports.append(report)
            if not as_json:
                rendering.show_report(_console(), report)
    except KeyboardInterrupt:
        resume = f"finished cells are stored in '{out}', and the same command resumes after them."
        return _fail(f"interrupted; {resume}", as_json=as_json, code=130)
    if as_json:
        content = [report.to_dict() for report in reports]
        _print_json(content[0] if len(names or ()) == 1 else {"figures": content})
    return 0 if all(report.ok for report in reports) else 1


@app.command()
def measure(
    file: Annotated[Path, typer.Argument(help="An .npz, .csv or .parquet file.")],
    x: Annotated[str, typer.Option(help="Input array, or columns joined by commas.")] = "",
    y: Annotated[str, typer.Option(help="Array or column of the labels.")] = "y",
    task: Annotated[str, typer.Option(help="classify, regress, or auto by the labels.")] = "auto",
    normalize: Annotated[bool, typer.Option(help="Scale rows to unit norm.")] = True,
    rows: Annotated[int, typer.Option(help="Use at most this many rows.")] = 5000,
    top: Annotated[int, typer.Option(help="How many of the costliest rows to name.")] = 10,
    out: Out = Path("runs"),
    as_json: Json = False,
) -> int:
    """Measure your own data: how hard are its labels, and which rows make them so?"""
    from unlazy import measure as room
    from unlazy.experiments import rendering, save_figure

    table = room.read_table(file, x=[name for name in x.split(",") if name], y=y)
    try:
        report = room.measure(table.x, table.y, task=task, normalize=normalize, most_rows=rows)  # pyright: ignore[reportArgumentType]  # `task` is checked there
    except ValueError as error:
        raise UnlazyError(f"'{file}': {error}") from error
    figures = save_figure(room.plot_report(report), out / "measure", file.stem)
    content = report.to_dict(top) | {"figures": [str(path) for path in figures]}
    if as_json:
        _print_json(content)
    else:
        rendering.show_measure(_console(), content, rows_given=len(table.x))
    return 0


@app.command()
def doctor(out: Out = Path("runs"), as_json: Json = False) -> int:
    """Show versions, devices, precision and the data sets found, and check that float64 works."""
    from unlazy.experiments import rendering
    from unlazy.experiments.doctor import examine

    findings = examine(out)
    if as_json:
        _print_json(findings)
    else:
        rendering.show_findings(_console(), findings)
    return 0 if findings["ok"] else 1


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and exit; the entry point of `unlazy`."""
    arguments = sys.argv[1:] if args is None else list(args)
    try:
        code = app(arguments, prog_name="unlazy", standalone_mode=False)
    except Exception as error:
        code = _fail_with(error, as_json="--json" in arguments)
    sys.exit(code)


def _keep_compiled(out: Path) -> None:
    """Keep compiled programs beside the results, so that a resumed run need not compile again."""
    # In a larger program, which has imported JAX already, the settings are that program's.
    if "jax" in sys.modules or "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    import jax

    jax.config.update("jax_compilation_cache_dir", str(out.resolve() / "compiled"))
    # All of them: hundreds of small ones take longer than the few large ones.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)


def _fail_with(error: Exception, *, as_json: bool) -> int:
    """Report an error: one line, and a traceback only for what nobody foresaw."""
    if isinstance(error, _UsageError):
        message = error.format_message()  # pyright: ignore[reportAttributeAccessIssue]  # every usage error has it
        end = "" if message.endswith(("?", ".")) else "."
        return _fail(f"{message}{end} See unlazy --help.", as_json=as_json)
    # A cell's error is a wrapper that says how to resume: whether it was foreseen, its cause tells.
    cause = error.__cause__ if _is_cell_error(error) else error
    if isinstance(cause, UnlazyError):
        return _fail(str(error), as_json=as_json)
    traceback.print_exception(cause, file=sys.stderr)
    kind = "" if isinstance(error, UnlazyError) else f"{type(error).__name__}: "
    return _fail(f"{kind}{error}", as_json=as_json)


def _is_cell_error(error: Exception) -> bool:
    from unlazy.experiments import CellError

    return isinstance(error, CellError)


def _fail(message: str, *, as_json: bool, code: int = 2) -> int:
    """Say what is wrong on one line of standard error, and as JSON where that was asked for."""
    line = " ".join(message.split())
    typer.echo(f"unlazy: {line}", err=True)
    if as_json:
        _print_json({"error": line})
    return code


def _print_json(content: Mapping[str, Any]) -> None:
    typer.echo(json.dumps(content, indent=2, allow_nan=False))


def _console() -> "rich.console.Console":
    """Standard output for people; wide where it is no terminal, so that tables are not folded."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else 120)
