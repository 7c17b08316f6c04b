# SPDX-License-Identifier: Apache-2.0
"""Every preset of every figure can be judged and drawn, whatever its trainings come to.

A preset of the paper's size takes minutes on a GPU: its claims and plot are tried here on made-up
tables, so that no run fails at its end.
"""

import io
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest

from unlazy import data, papers
from unlazy.core.drawing import style
from unlazy.experiments import Store
from unlazy.experiments.figures import bear_nothing
from unlazy.experiments.report.panels import panels_of
from unlazy.papers.shared.settings import reproducible

PRESETS = [(name, preset) for name in papers.names() for preset in papers.get(name).presets]


@pytest.fixture(autouse=True)
def known_data(monkeypatch):
    """Cells of the figures on images name the copy of the data; made-up ones need none."""
    monkeypatch.setattr("unlazy.data.fingerprint", lambda name: f"made up for {name}")


@pytest.fixture
def results_of(layouts):
    """Made-up results of a preset, with its experiment and configuration."""

    def results(name, preset, draw, *, diverged=False):
        experiment = papers.get(name)
        config = experiment.presets[preset].config
        cells = experiment.cells(config)
        return experiment, config, {c: layouts.made_up(c, draw, diverged=diverged) for c in cells}

    return results


def drawn(figure):
    """Draw a figure as it is saved, but small."""
    bear_nothing(figure)
    figure.savefig(io.BytesIO(), format="png", dpi=30)


def ordinary(rng):
    return lambda shape: rng.uniform(0.05, 1.0, shape)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_claims_and_plot_of_every_preset_are_made_of_ordinary_tables(name, preset, results_of):
    draw = ordinary(np.random.default_rng(0))
    experiment, config, results = results_of(name, preset, draw)
    claims = experiment.claims(config, results)
    ids = [claim.id for claim in claims]
    assert ids or preset == "smoke"  # where a figure may be too small for claims
    assert len(set(ids)) == len(ids)
    known = {*ids, *(identifier.partition("/")[2] for identifier in ids)}
    assert set(getattr(config, "refuted", ())) <= known  # else the record is of no claim
    if preset != "smoke":  # those are drawn below, from tables that were computed
        with style():
            figure = experiment.plot(config, results)
            drawn(figure)
        panels = panels_of(figure)  # as the report shows it
        assert 0 < len(panels) <= len(figure.axes)  # made-up numbers may leave one empty
        assert any(panel["curves"] for panel in panels)
        assert all(panel["x"]["label"] or panel["x"]["ticks"] for panel in panels)
        assert json.dumps(panels, allow_nan=False)


@pytest.mark.parametrize(("name", "preset"), PRESETS)
def test_claims_and_plot_of_every_preset_bear_trainings_that_diverged(name, preset, results_of):
    experiment, config, results = results_of(
        name, preset, lambda shape: np.full(shape, np.nan), diverged=True
    )
    with warnings.catch_warnings(), style():
        warnings.simplefilter("ignore")  # NumPy and matplotlib may remark on such numbers
        claims = experiment.claims(config, results)
        if preset == "paper":  # of the others, the test above draws the same panels
            figure = experiment.plot(config, results)
            drawn(figure)
            assert json.dumps(panels_of(figure), allow_nan=False)
    assert all(isinstance(claim.verdict, str) for claim in claims)
    assert json.dumps([claim.to_dict() for claim in claims])


CLAIMS = {"arora2019/figure1": 5, "arora2019/figure2": 4, "bai_lee2020/sample_complexity": 10}


@pytest.fixture(scope="module")
def smoke_run(smoke_store, tmp_path_factory):
    """What `unlazy run --all --preset smoke` ends with, as a user calls it."""
    cache = tmp_path_factory.mktemp("cache")
    settings = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "UNLAZY_CACHE": str(cache)}
    command = [sys.executable, "-m", "unlazy", "run", "--all", "--preset", "smoke", "--json"]
    return subprocess.run(
        [*command, "--out", str(smoke_store)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | settings,
    )


def test_run_all_at_the_smoke_preset_ends_with_the_recorded_verdicts(smoke_run):
    assert smoke_run.returncode == 0, smoke_run.stderr
    reports = json.loads(smoke_run.stdout)["figures"]
    assert [report["experiment"] for report in reports] == list(papers.names())
    assert all(report["ok"] for report in reports)
    counts = {report["experiment"]: len(report["claims"]) for report in reports}
    assert counts | CLAIMS == counts
    figures = [Path(path) for report in reports for path in report["figures"]]
    assert len(figures) == 2 * len(reports)
    assert all(path.stat().st_size > 1000 for path in figures)


@pytest.mark.usefixtures("smoke_run")
@pytest.mark.parametrize("name", papers.names())
def test_layouts_are_those_of_the_tables_of_the_smoke_preset(
    name, smoke_store, layouts, monkeypatch
):
    monkeypatch.undo()  # the cells that were computed are of the data found
    experiment, store = papers.get(name), Store(smoke_store)
    for cell in experiment.cells(experiment.presets["smoke"].config):
        layout, real = layouts.layout_of(cell), store.read(cell)
        fake = layouts.made_up(cell, np.ones)
        kinds = {column: values.dtype.kind for column, values in real.table.items()}
        assert kinds == {column: values.dtype.kind for column, values in fake.table.items()}
        assert set(real.arrays) == set(fake.arrays)
        if layout.open_ended:
            continue
        rows, expected = (
            sorted(zip(*(table[column].tolist() for column in layout.keys), strict=True))
            for table in (real.table, fake.table)
        )
        assert rows == expected, cell
        shapes = {array: np.shape(values) for array, values in real.arrays.items()}
        assert shapes == {array: np.shape(values) for array, values in fake.arrays.items()}


def test_figures_in_float64_draw_the_samples_of_their_stored_cells():
    with reproducible(x64=True):
        drawn = data.sphere(3, 2, key=jax.random.key(0))
    with jax.enable_x64(True):
        normal = jax.random.normal(jax.random.key(0), (3, 2))  # from 64 bits
        np.testing.assert_allclose(
            drawn, normal / np.linalg.norm(normal, axis=1, keepdims=True), rtol=1e-14
        )
        others = data.sphere(3, 2, key=jax.random.key(0))
    assert np.abs(np.asarray(drawn) - np.asarray(others)).max() > 0.1
