# SPDX-License-Identifier: Apache-2.0
"""Writes the report: an overview, a page per run, and what the pages need, in one folder."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unlazy.core import disk
from unlazy.core.drawing import style
from unlazy.core.entries import entry
from unlazy.core.errors import UnlazyError
from unlazy.experiments.figures import bear_nothing
from unlazy.experiments.joined import joined
from unlazy.experiments.report.figure_page import figure_page
from unlazy.experiments.report.html import size
from unlazy.experiments.report.overview_page import overview_page
from unlazy.experiments.report.panels import Panel, left_out, panels_of
from unlazy.experiments.report.stored import Find, RunWithCells, StoredRun, stored_runs
from unlazy.experiments.store import Store

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DRAWN = ("figure.png", "figure.svg")
_OTHER_DATA = (
    "Shown as it was drawn: this run found other data sets than are found now. Set UNLAZY_DATA to "
    "their folder and write the report again to zoom into the figure."
)


@dataclass(frozen=True)
class SiteReport:
    """What was written."""

    page: Path  # the overview
    runs: tuple[StoredRun, ...]
    interactive: bool  # whether figures can be zoomed; that needs `vl-convert-python`
    bytes: int  # of all files
    left_out: tuple[str, ...]  # sentences about what looks like a run and is not shown

    def to_dict(self) -> dict[str, Any]:
        """What was written, for JSON."""
        runs = [{"experiment": run.experiment, "preset": run.preset} for run in self.runs]
        return {
            "page": str(self.page),
            "runs": runs,
            "interactive": self.interactive,
            "bytes": self.bytes,
            "left_out": list(self.left_out),
        }

    def __str__(self) -> str:
        lines = [f"report: {self.page}", f"runs: {len(self.runs)}, {size(self.bytes)}"]
        lines += [f"note: {sentence}" for sentence in self.left_out]
        if not self.interactive:
            lines.append(
                "note: figures are shown as drawn. Install unlazy[report] for interactive ones."
            )
        return "\n".join(lines)


@entry
def write_report(
    out: Path | str = "runs",
    to: Path | str | None = None,
    *,
    find: Find = lambda name: None,  # noqa: ARG005  # the signature that `find` must have
    progress: Callable[[int, int], None] = lambda done, total: None,  # noqa: ARG005  # likewise
) -> SiteReport:
    """Write one static site over all stored runs of an output folder.

    The overview lists papers, figures and verdicts. Each run has a page: its figure, to zoom into
    and to hover over, its claims, its configuration, versions and device, and its tables to
    download. The pages need no network, and open from the disk.

    Args:
        out: The output folder of the runs.
        to: The folder to write to; `<out>/report` by default. Files of an earlier report there are
            replaced.
        find: The experiment behind a name, such as `papers.get`; figures without one are shown as
            they were drawn when they were run.
        progress: Told how many of the runs are done.

    Raises:
        StoreError: If there is no finished run, or a folder cannot be read or written.
    """
    out = Path(out)
    target = out / "report" if to is None else Path(to)
    runs, left_out = stored_runs(out, find)
    if not runs:
        raise UnlazyError(
            " ".join(
                [
                    f"no finished run in '{out}'. Run a figure first: unlazy run --all.",
                    *left_out[:1],
                ]
            )
        )
    disk.make_writable(target)
    site = _Site(target)
    interactive = site.copy_assets()
    shown = []
    for done, run in enumerate(runs):
        progress(done, len(runs))
        shown.append(site.write_run(run.read(Store(out)), interactive=interactive))
    site.write_page("index.html", overview_page(shown, left_out))
    progress(len(runs), len(runs))
    return SiteReport(target / "index.html", tuple(shown), interactive, site.bytes, left_out)


class _Site:
    """The folder, and how much was written to it."""

    def __init__(self, target: Path) -> None:
        self.target, self.bytes = target, 0

    def write_page(self, name: str, text: str) -> None:
        # Texts from JSON may have halves of characters, which no encoding has.
        self.write(name, text.encode(errors="backslashreplace"))

    def write(self, name: str, content: bytes) -> None:
        disk.replace_file(self.target / name, content)
        self.bytes += len(content)

    def copy_assets(self) -> bool:
        """Copy style and scripts; returns whether the one that draws is among them."""
        for name in ("report.css", "report.js"):
            self.write(
                f"assets/{name}",
                files("unlazy.experiments.report").joinpath("assets", name).read_bytes(),
            )
        script = _drawing_script()
        if script:
            self.write("assets/vega.js", script.encode())
        return bool(script)

    def write_run(self, stored: RunWithCells, *, interactive: bool) -> StoredRun:
        """Write the page of a run and its files; returns the run, for the overview."""
        run = stored.run
        folder = f"files/{run.slug}"
        downloads = []
        for name in _DRAWN:
            if (run.folder / name).is_file():
                self.write(f"{folder}/{name}", (run.folder / name).read_bytes())
                downloads.append(f"{folder}/{name}")
        for file, content in _tables(stored):
            self.write(f"{folder}/{file}", content)
            downloads.append(f"{folder}/{file}")
        panels, remark = drawn_panels(stored) if interactive else ([], "")
        page = figure_page(stored, downloads, panels, remark)
        self.write_page(f"{run.slug}.html", page)
        return run


def drawn_panels(stored: RunWithCells) -> tuple[list[Panel], str]:
    """What the figure of a run shows, drawn again from its tables, and why not all of it."""
    code = stored.run.code
    if code is None or stored.run.problem:
        return [], ""
    # The code of a figure may be anybody's; the other figures and the drawn one stay.
    try:
        results = stored.results()
        if results is None:
            return [], _OTHER_DATA
        with style():
            figure: Figure = code.plot(code.presets[stored.run.preset].config, results)
            bear_nothing(figure)
            panels, only_drawn = panels_of(figure), left_out(figure)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        return [], f"Shown as it was drawn: its numbers could not be taken from it ({reason})."
    said = f"Only in the figure as drawn: {'; '.join(only_drawn)}." if only_drawn else ""
    return panels, said


def _tables(stored: RunWithCells) -> Iterator[tuple[str, bytes]]:
    """The files of the tables of a run, by name: Parquet for all, CSV where a table may be read."""
    for table in joined(stored.cells):
        yield f"{table.name}.parquet", table.parquet(stored.run.experiment, stored.run.version)
        if table.holds == "rows":
            yield f"{table.name}.csv", table.csv()


def _drawing_script() -> str:
    """Vega, Vega-Lite and vega-embed as one script; empty where the extra is not installed."""
    try:
        import vl_convert
    except ImportError:
        return ""
    # Its stub has no default; without a snippet the bundle is the whole of the three.
    return vl_convert.javascript_bundle()  # pyright: ignore[reportCallIssue]  # see above
