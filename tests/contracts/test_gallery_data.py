# SPDX-License-Identifier: Apache-2.0
"""The stored tables of the gallery are whole, of the present code, and draw their figures."""

from pathlib import Path

import pytest

from unlazy import papers
from unlazy.experiments import run_experiment
from unlazy.experiments.joined import taken_apart
from unlazy.experiments.tables import read_table

DATA = Path(__file__).parents[2] / "docs" / "gallery" / "data"
RUNS = sorted(folder.name for folder in DATA.iterdir() if folder.is_dir())


def figure_of(run):
    """The experiment and the preset of a folder such as `arora2019--figure1--quick`."""
    paper, figure, preset = run.split("--")
    return papers.get(f"{paper}/{figure}"), preset


@pytest.mark.parametrize("run", RUNS)
def test_every_cell_is_whole_and_of_the_present_version(run):
    # If not: run the preset again, and copy the Parquet files of its report.
    experiment, preset = figure_of(run)
    assert preset in experiment.presets
    cells = len(read_table(DATA / run / "index.parquet")["cell_seed"])
    assert len(taken_apart(DATA / run, experiment.name, experiment.version)) == cells > 0


def test_a_figure_is_drawn_and_judged_without_computing_anything(tmp_path):
    experiment, preset = figure_of("allenzhu_li2019--theorem1--paper")
    report = run_experiment(experiment, preset, out=tmp_path, tables=DATA)
    assert (report.computed, report.ok) == (0, True)
    assert report.reused == len(experiment.cells(experiment.presets[preset].config))


def test_the_tables_are_small():
    assert sum(path.stat().st_size for path in DATA.rglob("*")) < 5e6
    assert {path.suffix for path in DATA.rglob("*") if path.is_file()} == {".parquet"}
