# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import jax
import numpy as np
import pytest

from unlazy.experiments import CellResult, Store, run_experiment
from unlazy.papers.allenzhu_li_liang2019.figures import figure1, figure2, samples
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.claims import Curves
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Grid, Point, Size, notes
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.recorded import PLACE, RECORDED
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.run import run
from unlazy.papers.allenzhu_li_liang2019.figures.learners import KERNELS, METHODS

# Half a minute; the grid engine and the linear models have tests of their own.

FIGURES = {"composed-sines": figure1.EXPERIMENT, "composed-tanhs": figure2.EXPERIMENT}


def quiet(done, total):
    del done, total


@pytest.fixture(scope="module", params=list(FIGURES))
def smoke(request, smoke_store):
    """The report of the smallest preset, its configuration and its cells, computed once."""
    experiment, out = FIGURES[request.param], smoke_store
    report = run_experiment(experiment, "smoke", out=out)
    config = experiment.preset("smoke").config
    results = {cell: Store(out).read(cell) for cell in experiment.cells(config)}
    return experiment, report, config, results, out


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke):
    _, report, *_ = smoke
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert len(report.claims) == 3
    assert all(path.stat().st_size > 1000 for path in report.figures)


def test_a_second_run_computes_nothing(smoke):
    experiment, report, _, results, out = smoke
    again = run_experiment(experiment, "smoke", out=out)
    assert (again.computed, again.reused) == (0, len(results))
    assert [claim.measured for claim in again.claims] == [c.measured for c in report.claims]


def test_every_lane_is_in_the_table_and_kernels_have_exact_rows(smoke):
    *_, results, _ = smoke
    for cell, result in results.items():
        solvers, grid = result.table["solver"], cell.config.grid
        lanes = cell.config.seeds * len(grid.rates) * len(grid.decays)
        assert (solvers == "sgd").sum() == lanes
        assert (solvers == "ridge").any() == (cell.config.method in KERNELS)
        assert np.isfinite(result.table["test"]).all()


def test_a_larger_ridge_fits_the_training_set_less_well(smoke):
    *_, results, _ = smoke
    for cell, result in results.items():
        table = result.table
        for seed in range(cell.config.seeds):
            rows = (table["solver"] == "ridge") & (table["seed"] == seed)
            order = np.argsort(table["weight_decay"][rows])
            train = table["train"][rows][order]
            # Kernels of rank 32: what lies beyond is rounding over the smallest ridges.
            assert np.all(np.diff(train) >= -2e-5 * train.max(initial=0))


def test_seeds_trained_together_are_those_trained_alone():
    grid = Grid((0.01, 0.02), (1e-4,), 0)
    point = Point("composed-sines", "2layer(NTK)", Size(16, 100, 5), grid, 2, 50, 50, 100)
    both = run(point, seed=0, progress=quiet).table
    alone = run(replace(point, seeds=1), seed=1, progress=quiet).table
    rows = both["seed"] == 1
    for name in ("train", "validation", "test"):
        np.testing.assert_allclose(both[name][rows], alone[name], rtol=2e-4)
    assert not np.allclose(both["test"][rows], both["test"][~rows], rtol=1e-2)


@pytest.mark.parametrize(("target", "energy"), [("composed-sines", 31.8), ("composed-tanhs", 76.8)])
def test_the_labels_have_the_recorded_energy(target, energy):
    # Both are means of 2000 samples: four standard errors of their difference, 6e-5 to fail.
    y = np.asarray(samples.draw(target, 1, 1, 2000, seed=0).test.y, np.float64) ** 2
    assert abs(y.mean() - energy) < 4 * np.sqrt(2) * y.std() / np.sqrt(2000)


def test_training_sets_are_nested_and_the_other_sets_stay():
    small, large = (samples.draw("composed-sines", n, 30, 40, seed=1) for n in (20, 50))
    np.testing.assert_array_equal(small.train.x, large.train.x[:20])
    np.testing.assert_array_equal(small.test.y, large.test.y)
    other = samples.draw("composed-sines", 20, 30, 40, seed=2)
    assert not np.allclose(small.train.x, other.train.x)
    assert not np.allclose(small.test.x[:20], small.train.x)
    np.testing.assert_allclose(np.linalg.norm(small.train.x, axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("layers", [2, 3])
def test_the_networks_start_as_in_the_paper(layers):
    # a ~ N(0, 1), all else N(0, 1/m); the smallest array has 900 entries: 5 standard errors.
    params = samples.network(layers, 900).init(key=samples.keys(0).init)
    for name in vars(params):
        scale = 1 if name == "a" else 900**-0.5
        assert np.std(getattr(params, name)) / scale == pytest.approx(1, abs=5 / np.sqrt(2 * 900))


def changed(results, method, factor):
    """The results with the errors of one method multiplied."""
    return {
        cell: CellResult(result.table | {"test": result.table["test"] * factor}, result.arrays)
        if cell.config.method == method
        else result
        for cell, result in results.items()
    }


def test_the_claims_can_fail_and_can_hold(smoke):
    experiment, _, config, results, _ = smoke
    number, config = RECORDED[config.target].id, replace(config, orders=True)

    def verdicts(changes):
        return {c.id.split("/")[1]: c.verdict for c in experiment.claims(config, changes)}

    deep = verdicts(changed(results, "3layer", 1e-3))
    assert (deep["depth"], deep["depth-exact"]) == ("holds", "holds")
    shallow = verdicts(changed(results, "3layer", 1e3))
    assert (shallow["depth"], shallow["depth-exact"]) == ("refuted", "refuted")
    good, bad = (verdicts(changed(results, "2layer", factor)) for factor in (1e-3, 1e3))
    for name in ("hidden", "kernels", "kernels-exact"):
        assert (good[name], bad[name]) == ("holds", "refuted")
    grown = {
        cell: CellResult(
            result.table | {"test": result.table["test"] * cell.config.size.n**3}, result.arrays
        )
        for cell, result in results.items()
    }
    assert verdicts(grown)["samples-3layer"] == "refuted"
    assert all(claim.id.startswith(number) for claim in experiment.claims(config, results))


@pytest.mark.parametrize(
    ("growth", "verdict"), [(0.5, "holds"), (1.09, "holds"), (1.11, "refuted"), (2.0, "refuted")]
)
def test_errors_may_stay_but_not_grow_with_the_width(smoke, growth, verdict):
    experiment, _, config, results, _ = smoke
    narrow = config.widths[0]
    wide = replace(narrow, width=2 * narrow.width)
    config = replace(config, widths=(narrow, wide), samples=(narrow,))
    of_narrow = {
        cell.config.method: results[cell] for cell in results if cell.config.size == narrow
    }

    def result(cell):
        found = of_narrow[cell.config.method]
        factor = growth if cell.config.size == wide else 1.0
        return CellResult(found.table | {"test": factor * found.table["test"]}, found.arrays)

    invented = {cell: result(cell) for cell in experiment.cells(config)}
    claims = {c.id.split("/")[1]: c for c in experiment.claims(config, invented)}
    for method in ("3layer", "2layer"):
        assert claims[f"width-{method}"].verdict == verdict
        assert claims[f"width-{method}"].measured == pytest.approx(growth)


def test_the_optimistic_choice_is_never_above_the_honest_one(smoke):
    _, _, config, results, _ = smoke
    curves = Curves(config, results)
    for method in METHODS:
        for size in config.sizes():
            honest = curves.at(method, size, by="validation")
            assert np.all(curves.at(method, size) <= honest)


def test_recorded_numbers_are_claimed_where_the_sizes_are_theirs():
    config = figure1.EXPERIMENT.preset("quick").config
    assert PLACE in config.sizes()
    for record in RECORDED.values():
        assert set(record.test) == set(METHODS)
        assert set(record.ridge) == set(KERNELS)


@pytest.mark.parametrize("target", list(FIGURES))
def test_the_paper_preset_has_the_sizes_of_the_paper(target):
    config = FIGURES[target].preset("paper").config
    widths = [size.width for size in config.widths]
    assert (min(widths), max(widths)) == (50, 5000)
    assert {size.n for size in config.widths} == {1000}
    assert [size.n for size in config.samples] == [100, 300, 1000, 5000]
    assert {size.width for size in config.samples} == {2000}
    assert {size.epochs for size in config.sizes()} == {800}
    cells = FIGURES[target].cells(config)
    assert {cell.config.method for cell in cells} == set(METHODS)
    assert config.seeds == 3
    # A cell is at most some 10^15 floating-point operations, a minute on the GPU.
    for cell in cells:
        size, grid = cell.config.size, cell.config.grid
        lanes = cell.config.seeds * len(grid.rates) * len(grid.decays)
        steps = size.epochs * size.n // 50
        if cell.config.method == "3layer":
            assert lanes * steps * 300 * size.width**2 < 2e15
    assert "thinner" in notes(config)[0]


@pytest.mark.parametrize(
    "other",
    [lambda: jax.default_prng_impl("rbg"), lambda: jax.threefry_partitionable(False)],
    ids=["rbg", "threefry of old"],
)
def test_cells_do_not_depend_on_how_the_user_draws(other):
    grid = Grid((0.01,), (1e-4,), 0)
    point = Point("composed-sines", "2layer", Size(8, 50, 3), grid, 1, 25, 20, 30)
    usual = run(point, seed=0, progress=quiet).table["test"]
    with other():
        found = run(point, seed=0, progress=quiet).table["test"]
    np.testing.assert_array_equal(found, usual)


def test_cells_do_not_depend_on_the_users_precision(x64):
    grid = Grid((0.01,), (1e-4,), 0)
    point = Point("composed-tanhs", "2layer", Size(8, 50, 3), grid, 1, 25, 20, 30)
    wide = run(point, seed=0, progress=quiet).table["test"]
    with jax.enable_x64(False):
        narrow = run(point, seed=0, progress=quiet).table["test"]
    np.testing.assert_array_equal(wide, narrow)
