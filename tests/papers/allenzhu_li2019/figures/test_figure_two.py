# SPDX-License-Identifier: Apache-2.0
import math

import jax
import numpy as np
import pytest

from unlazy.certificates import dot_product as dot_product_certificate
from unlazy.experiments import CellResult, Store, run_experiment
from unlazy.papers.allenzhu_li2019.figures import samples
from unlazy.papers.allenzhu_li2019.figures.figure2 import EXPERIMENT
from unlazy.papers.allenzhu_li2019.figures.figure2.claims import Curves
from unlazy.papers.allenzhu_li2019.figures.figure2.config import (
    KERNELS,
    TANGENT,
    Coupled,
    FanInTraining,
    Grid,
    Limits,
    Panel,
    Training,
    grid_of,
    notes,
)
from unlazy.papers.allenzhu_li2019.figures.figure2.run import run
from unlazy.papers.allenzhu_li2019.figures.linear_models import (
    LIMITS,
    RIDGES,
    conjugate_model,
    limit_model,
)
from unlazy.papers.allenzhu_li2019.figures.samples import Task
from unlazy.papers.shared.grids.ridge import ridge_table

QUICK = EXPERIMENT.preset("quick").config


def quiet(done, total):
    del done, total


def invented(errors):
    """Results of the quick preset with the errors that a function of the method says."""
    results = {}
    for cell in EXPERIMENT.cells(QUICK):
        config = cell.config
        if isinstance(config, Limits):
            names, seeds = list(LIMITS), config.seeds
            arrays = {
                "captured": np.full(seeds, config.task.n / 12870),
                "energy": np.full(seeds, 8.7),
            }
        else:
            names, seeds, arrays = [config.method], config.seeds, {}
        solvers = ["coupled"] if isinstance(config, Coupled) else ["sgd", "ridge"]
        rows = [
            (solver, 0.1, 1e-3, seed, *(errors(name, solver),) * 3, False, 0, 0)
            for name in names
            for solver in ([name] if arrays else solvers)
            for seed in range(cell.seed, cell.seed + seeds)
        ]
        columns = ("solver", "learning_rate", "weight_decay", "seed", "train", "validation", "test")
        columns += ("diverged", "diverged_epoch", "extension")
        table = {n: np.array(c) for n, c in zip(columns, zip(*rows, strict=True), strict=True)}
        results[cell] = CellResult(table, arrays)
    return results


def verdicts(errors):
    return {claim.id: claim.verdict for claim in EXPERIMENT.claims(QUICK, invented(errors))}


def test_the_claims_hold_where_only_the_resnet_learns():
    found = verdicts(lambda name, _: 0.1 if name[:7] == "3resnet" and name[8] in "ah" else 1.0)
    said = {id: verdict for id, verdict in found.items() if id[:5] in ("RN-61", "RN-62")}
    assert set(said.values()) == {"holds"}
    # Of the kernels of the second panel only exact solutions are known.
    assert "RN-61/kernels-sgd" in said
    assert "RN-62/kernels-sgd" not in said
    assert {"RN-61/kernels-averaged", "RN-62/kernels-averaged"} <= set(said)


@pytest.mark.parametrize(
    ("culprit", "claim"),
    [
        ("3layer(all)", "RN-61/3layer"),
        ("2layer(hidden)", "RN-62/2layer"),
        ("3layer(NTK)", "RN-61/kernels-sgd"),
        ("2layer(last)", "RN-62/kernels-ridge"),
        ("2layer(last)", "RN-61/certified"),
    ],
)
def test_a_claim_fails_where_another_learns_too(culprit, claim):
    assert verdicts(lambda name, _: 0.1 if name == culprit else 1.0)[claim] == "refuted"


def test_coupled_and_averaged_kernels_have_claims_of_their_own():
    def learns(culprit):
        return lambda name, solver: 0.1 if (name, solver) == ("3layer(NTK)", culprit) else 1.0

    coupled, averaged = verdicts(learns("coupled")), verdicts(learns("ridge"))
    assert coupled["RN-62/kernels-ridge"] == averaged["RN-62/kernels-averaged"] == "refuted"
    assert coupled["RN-62/kernels-averaged"] == averaged["RN-62/kernels-ridge"] == "holds"


def test_the_exact_solutions_with_coupled_outputs_are_cells_of_their_own():
    # So that what is stored of all others stays.
    for name, count in (("quick", 12), ("paper", 24)):
        every = EXPERIMENT.cells(EXPERIMENT.preset(name).config)
        coupled = [cell for cell in every if isinstance(cell.config, Coupled)]
        assert len(coupled) == count
        assert {cell.config.method for cell in coupled} == set(TANGENT)
        assert EXPERIMENT.version == 1


def test_the_resnet_must_be_below_the_line_by_a_margin():
    found = verdicts(lambda name, _: 0.5 if name == "3resnet(all)" else 1.0)
    assert (found["RN-61/3resnet"], found["RN-61/3resnet-widths"]) == ("refuted", "holds")


def test_the_grid_of_the_paper_is_the_whole_one_on_record():
    full = grid_of("full", "3resnet(all)")
    assert (len(full.rates), len(full.decays)) == (12, 13)  # RN-33
    assert (min(full.rates), max(full.rates)) == (1e-4, 0.5)
    assert (full.decays[0], max(full.decays)) == (0.0, 5e-2)


def test_the_paper_preset_has_the_sizes_of_the_paper():
    config = EXPERIMENT.preset("paper").config
    assert [(p.mode, p.task.n, p.task.inputs) for p in config.panels] == [
        ("all", 500, 30),
        ("hidden", 1000, 30),
    ]
    assert {p.task.n_test for p in config.panels} == {10_000}
    assert all((min(p.widths), max(p.widths)) == (20, 5000) for p in config.panels)
    # Milliseconds of an H200 for a step of a lane of 3layer, measured: m = 5000 and below.
    for cell in EXPERIMENT.cells(config):
        if isinstance(cell.config, Training) and cell.config.method.startswith("3layer("):
            one = cell.config
            if one.method in KERNELS or one.grid is None:
                continue
            lanes = one.seeds * len(one.grid.rates) * len(one.grid.decays)
            steps = one.epochs * one.task.n // one.batch_size
            assert lanes * steps * 0.44e-3 * (one.width / 5000) ** 2 < 60
    assert "3layer" in notes(config)[0]
    assert notes(QUICK) == []


def test_wide_networks_have_a_cell_for_every_seed():
    config = EXPERIMENT.preset("paper").config
    found = config.trainings(config.panels[0], "3resnet(all)", 5000)
    assert [seed for _, seed in found] == [0, 1, 2]
    assert [seed for _, seed in config.trainings(config.panels[0], "3resnet(all)", 100)] == [0]


def test_the_target_has_the_risks_on_record():
    # RN-60 and RN-64: threshold and zero predictor.
    for inputs, base, zero in ((30, 1.35, 16.35), (16, 0.72, 8.72)):
        target = Task(10, inputs).target()
        assert (target.base_risk, target.zero_risk) == pytest.approx((base, zero))
    y = np.asarray(samples.draw(Task(500, 16), seed=0).train.y)
    np.testing.assert_allclose(np.abs(y), np.where(np.abs(y) > 1, 1.3, 0.7), rtol=1e-6)


def test_training_sets_are_nested_and_the_other_sets_stay():
    small, large = (
        samples.draw(Task(n, 8, n_validation=30, n_test=40), seed=1, beta=beta)
        for n, beta in ((20, 1.0), (50, 0.0))
    )
    np.testing.assert_array_equal(small.train.x, large.train.x[:20])
    np.testing.assert_array_equal(small.test.x, large.test.x)
    np.testing.assert_allclose(np.abs(large.test.y), 0.3, rtol=1e-6)


@pytest.mark.parametrize(
    "layers",
    ["3resnet", *(pytest.param(plain, marks=pytest.mark.slow) for plain in ("2layer", "3layer"))],
)
def test_every_entry_of_the_networks_starts_from_one_over_m(layers):
    params = samples.start(samples.network(layers, Task(10, 8), 900), 0)
    for leaf in jax.tree.leaves(params):  # 900 entries at least: five standard errors
        assert np.std(leaf) * 30 == pytest.approx(1, abs=5 / math.sqrt(2 * 900))


def test_the_fan_in_preset_shares_nothing_with_the_other_start_but_the_limits():
    config = EXPERIMENT.preset("fan-in").config
    by_fan_in, usual = {*EXPERIMENT.cells(config)}, {*EXPERIMENT.cells(QUICK)}
    started = [cell.config for cell in by_fan_in if not isinstance(cell.config, Limits)]
    assert {one.init for one in started} == {"fan-in"}
    assert {type(cell.config) for cell in by_fan_in & usual} == {Limits}
    # The cells of the other start are stored under digests from before there was a choice.
    one = next(cell for cell in EXPERIMENT.cells(QUICK) if isinstance(cell.config, Coupled))
    assert set(one.identity()["config"]) == {"class", "task", "method", "width", "seeds"}
    assert "infinite width" in notes(config)[0]


def test_a_cell_by_fan_in_is_computed_from_that_start():
    # Not of 2layer, whose kernels of the last layer are the same for both starts, up to scale.
    task, method = Task(20, 8, n_validation=10, n_test=30), "3resnet(last)"
    config = FanInTraining(task, method, width=12, grid=None, epochs=1, seeds=1)
    found = run(config, seed=0, progress=quiet).table["test"]
    net, split = samples.network("3resnet", task, 12, "fan-in"), samples.draw(task, seed=0)
    model = conjugate_model(net, samples.start(net, 0), tuple(part.x for part in split))
    np.testing.assert_array_equal(found, ridge_table([model], [split], (0,), RIDGES)["test"])


@pytest.mark.parametrize(
    ("inputs", "n", "captured", "errors"),
    [
        (
            16,
            400,
            0.031,
            {"2layer(last)": 1.19, "2layer(NTK)": 1.31, "3layer(last)": 1.39, "3layer(NTK)": 1.89},
        ),
        (16, 800, 0.061, {"2layer(last)": 0.89, "2layer(NTK)": 0.92}),
        (
            30,
            500,
            8.5e-5,
            {"2layer(last)": 5.08, "2layer(NTK)": 6.35, "3layer(last)": 6.47, "3layer(NTK)": 8.62},
        ),
        (
            30,
            1000,
            1.7e-4,
            {"2layer(last)": 2.43, "2layer(NTK)": 2.99, "3layer(last)": 3.08, "3layer(NTK)": 4.73},
        ),
    ],
)
@pytest.mark.slow
def test_kernels_of_infinite_width_have_the_errors_on_record(inputs, n, captured, errors):
    # RN-63 to RN-65, one seed each and other samples: a tenth.
    split = samples.draw(Task(n, inputs, n_validation=10, n_test=4000), seed=0)
    for name, error in errors.items():
        found = ridge_table([limit_model(name, split)], [split], (0,), RIDGES)["test"]
        assert found.min() == pytest.approx(error, rel=0.1)
    certificate = dot_product_certificate(split.train.x, sets=[range(8)])
    # Its mean over all sets is n / C(d, 8); one set varies about it by some twentieths.
    assert certificate.captured[0] == pytest.approx(captured, rel=0.25)


@pytest.mark.slow
def test_the_resnet_learns_the_composite_and_two_layers_do_not():
    # RN-64: 3resnet(all) .009, .019, .005 at m = 50; below .3 of the line, two layers above it.
    task = Task(400, 16, n_validation=100, n_test=2000)
    for method, grid, low, high in (
        ("3resnet(all)", Grid((0.05, 0.1), (5e-3,), 0), 0, 0.3),
        ("2layer(all)", Grid((0.01, 0.02), (5e-2,), 0), 1, 2),
    ):
        training = Training(task, method, 50, grid, 200, 3)
        table = run(training, seed=0, progress=quiet).table
        for seed in range(3):
            best = table["test"][table["seed"] == seed].min() / 0.72
            assert low < best < high


@pytest.mark.slow
def test_the_resnet_learns_the_composite_at_the_size_of_the_paper_given_weight_decay():
    # RN-63, N = 500, m = 200, lr .05: 1.77 at wd .001 and .38 at .01, one seed. Two of ours gave
    # 1.74 and 1.95, .04 and .35, so that the line in between, 1.35, is all that is asserted.
    task = Task(500, 30, n_validation=100, n_test=2000)
    training = Training(task, "3resnet(all)", 200, Grid((0.05,), (1e-3, 1e-2), 0), 500, 2)
    table = run(training, seed=0, progress=quiet).table
    decay = table["weight_decay"]
    assert (table["test"][decay == 1e-2] < 1.35).all()
    assert (table["test"][decay == 1e-3] > 1.35).all()
    assert (table["train"] < 0.05).all()


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke_store):
    report = run_experiment(EXPERIMENT, "smoke", out=smoke_store)
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert all(path.stat().st_size > 1000 for path in report.figures)
    config = EXPERIMENT.preset("smoke").config
    results = {cell: Store(smoke_store).read(cell) for cell in EXPERIMENT.cells(config)}
    for panel in config.panels:
        curves = Curves(config, panel, results)
        for method in panel.networks:
            assert np.all(curves.along(method) <= curves.along(method, by="validation"))
        for method in KERNELS:
            assert np.isfinite(curves.along(method, solver="ridge")).all()
            assert np.isfinite(curves.exact(method)).all()
    again = run_experiment(EXPERIMENT, "smoke", out=smoke_store)
    assert (again.computed, again.reused) == (0, len(results))


@pytest.mark.slow
def test_cells_do_not_depend_on_the_users_precision(x64):
    task = Task(50, 8, n_validation=20, n_test=30)
    training = Training(task, "3resnet(NTK)", 8, Grid((0.01,), (1e-3,), 0), 3, 1, 25)
    wide = run(training, seed=0, progress=quiet).table["test"]
    with jax.enable_x64(False):
        narrow = run(training, seed=0, progress=quiet).table["test"]
    np.testing.assert_allclose(wide, narrow, rtol=1e-6)


def test_a_panel_names_its_methods():
    panel = Panel("hidden", Task(10), (20,), (20,), sgd_kernels=False, n_kernels=10)
    assert panel.networks == ("3resnet(hidden)", "3layer(hidden)", "2layer(hidden)")
