# SPDX-License-Identifier: Apache-2.0
import math
from dataclasses import replace

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data
from unlazy.experiments import CellResult, Store, run_experiment
from unlazy.nets import TwoLayer
from unlazy.papers.allenzhu_li2019 import pad_inputs, parity_network, repeat_neurons
from unlazy.papers.allenzhu_li2019.figures.figure4 import EXPERIMENT
from unlazy.papers.allenzhu_li2019.figures.figure4.claims import (
    QUOTED,
    Runs,
    frontier_error,
    frontier_norm,
    norm_at,
)
from unlazy.papers.allenzhu_li2019.figures.figure4.config import HandBuilt, Training
from unlazy.papers.allenzhu_li2019.figures.figure4.run import run, start


def quiet(done, total):
    del done, total


@pytest.fixture(scope="module")
def smoke(smoke_store):
    """The report of the smallest preset, its configuration and its results, computed once."""
    out = smoke_store
    report = run_experiment(EXPERIMENT, "smoke", out=out)
    config = EXPERIMENT.preset("smoke").config
    results = {cell: Store(out).read(cell) for cell in EXPERIMENT.cells(config)}
    return report, config, results


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke):
    report, *_ = smoke
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    # Nothing trained fits at this size, so the claim on the norms of fitted runs is left out.
    assert len(report.claims) == 4
    assert all(path.stat().st_size > 1000 for path in report.figures)


def test_the_frontier_is_attained_by_the_closed_form():
    # RN-73: the norms of exact parities of degree 2, 4, 6, 8, and a share of one.
    norms = [frontier_norm(np.zeros(1), p)[0] for p in (2, 4, 6, 8)]
    np.testing.assert_allclose(norms, [2.8284, 8.0, 13.0639, 18.1019], atol=5e-5)
    # RN-74: the optimum at the paper's errors.
    np.testing.assert_allclose(
        frontier_norm(np.array(list(QUOTED)), 6), [8.54, 10.55, 11.69], atol=5e-3
    )
    part = parity_network(10, 6, share=0.4)
    x = data.corners(10, scale=10**-0.5)
    y = np.prod(x[:, :6] * math.sqrt(10), axis=1)
    W, a = np.asarray(part.params.W), np.asarray(part.params.a)
    error = np.mean((np.maximum(x @ W.T, 0) @ a / math.sqrt(len(a)) - y) ** 2)
    norm = np.linalg.norm(W) / math.sqrt(10)
    assert frontier_error(np.array([norm]), 6)[0] == pytest.approx(error, rel=1e-9)
    assert frontier_norm(np.array([error]), 6)[0] == pytest.approx(norm, rel=1e-9)


def test_a_network_built_on_six_coordinates_serves_any_dimension(getkey):
    # Padding and duplication keep the outputs and |W|_F / sqrt(d), by which points are drawn.
    small = start(6, 20, key=getkey())
    large = repeat_neurons(pad_inputs(small, 40), 3)
    x = data.cube(50, 40, scale=40**-0.5, key=getkey())
    own = TwoLayer(6, 20)(small, x[:, :6] * math.sqrt(40 / 6))
    np.testing.assert_allclose(TwoLayer(40, 60)(large, x), own, atol=1e-5)
    norms = [np.linalg.norm(p.W) / math.sqrt(p.W.shape[1]) for p in (small, large)]
    assert norms[0] == pytest.approx(norms[1], rel=1e-5)


def test_half_of_the_output_weights_are_positive_and_w_has_variance_one_over_m():
    params = start(40, 400, key=jr.key(0))
    assert float(jnp.sum(params.a)) == 0
    # 16000 entries: five standard errors of a variance.
    assert np.var(params.W) * 400 == pytest.approx(1, abs=5 * math.sqrt(2 / 16000))


def test_runs_are_above_the_frontier_and_have_their_own_norms(smoke):
    _, config, results = smoke
    runs = Runs(config, results)
    assert np.all(runs.all["test"] > frontier_error(runs.all["norm"], 6))
    decays, norms = runs.all["weight_decay"], runs.all["norm"]
    assert norms[np.argmax(decays)] < norms[np.argmin(decays)]


def changed(results, **columns):
    """The results with some columns of the runs of SGD replaced."""
    return {
        cell: CellResult(
            result.table | {name: np.full(result.rows, value) for name, value in columns.items()}
        )
        if isinstance(cell.config, Training)
        else result
        for cell, result in results.items()
    }


def test_the_claims_can_fail_and_can_hold(smoke):
    _, config, results = smoke

    def verdicts(**columns):
        listed = EXPERIMENT.claims(config, changed(results, **columns))
        return {claim.id: claim.verdict for claim in listed}

    assert verdicts(test=0.5)["RN-67/test"] == "refuted"
    assert verdicts(test=0.1, norm=5.0)["RN-73/frontier"] == "refuted"
    below = verdicts(train=0.1, norm=5.0)
    assert (below["RN-67/frontier"], below["RN-67/norm"]) == ("refuted", "refuted")
    above = verdicts(train=0.1, norm=30.0)
    assert (above["RN-67/frontier"], above["RN-67/norm"]) == ("holds", "holds")


def test_norms_are_interpolated_at_the_errors_of_the_paper():
    built = {"test": np.array([0.2, 0.1, 0.0]), "norm": np.array([8.0, 10.0, 13.0])}
    np.testing.assert_allclose(norm_at(built, np.array([0.15, 0.05])), [9.0, 11.5])


@pytest.mark.parametrize(
    ("preset", "sizes", "widest"),
    [("paper", (40, 5000, 50, 800), 100_000), ("panel-b", (100, 50_000, 100, 800), 50_000)],
)
def test_the_presets_of_both_panels_have_the_sizes_of_the_paper(preset, sizes, widest):
    config = EXPERIMENT.preset(preset).config
    assert {(one.inputs, one.n, one.batch_size, one.epochs) for one in config.trainings} == {sizes}
    widths = [one.width for one in config.trainings]
    assert (min(widths), max(widths)) == (200, widest)
    # About 45 microseconds a step and run at d = 40, batches of 50 and a width of 10^5 on the GPU;
    # at most in proportion to the operations elsewhere: within three minutes a cell.
    for one in config.trainings:
        lanes, steps = len(one.rates) * len(one.decays), one.epochs * one.n // one.batch_size
        operations = one.width * one.inputs * one.batch_size / (1e5 * 40 * 50)
        assert lanes * steps * operations * 45e-6 < 190


def test_the_bound_on_the_test_error_is_that_of_the_panel():
    bounds = {name: EXPERIMENT.preset(name).config.least_test for name in ("paper", "panel-b")}
    assert bounds == {"paper": 0.69, "panel-b": 0.98}


def test_a_second_panel_leaves_the_cells_of_the_first_as_they_are_stored():
    cells = EXPERIMENT.cells(EXPERIMENT.preset("paper").config)
    found = [cell.digest[:8] for cell in cells]
    assert found == ["5e3fc8f2", "b0c6639f", "a54b6094", "194921fa", "e0122c52", "d24ea262"]
    (shared,) = {*cells} & {*EXPERIMENT.cells(EXPERIMENT.preset("panel-b").config)}
    assert isinstance(shared.config, HandBuilt)


@pytest.mark.slow
def test_the_hand_built_networks_are_those_on_record():
    # RN-74: norm and error by weight decay, another generator: 3 % in norm, a fifth in error.
    config = replace(EXPERIMENT.preset("paper").config.built, decays=(1e-4, 5e-4, 1e-3))
    assert isinstance(config, HandBuilt)
    table = run(config, seed=0, progress=quiet).table
    np.testing.assert_allclose(table["norm"], [13.14, 11.17, 8.92], rtol=0.03)
    np.testing.assert_allclose(table["test"], [0.0038, 0.068, 0.175], rtol=0.2)


@pytest.mark.slow
def test_a_short_run_fits_as_on_record_and_does_not_learn():
    # RN-67, reduced: train .41 to .55 at 12.2 to 12.7 sqrt(d), test 1.03 to 1.21. Rates of 2 and 10
    # give about that; one of 5 does not: train .33 to .35 and test .86 to .95, in three seeds.
    config = Training(200, (2.0, 5.0, 10.0), (1e-4,), inputs=24, n=1500, epochs=100, n_test=5000)
    table = run(config, seed=0, progress=quiet).table
    alike = table["learning_rate"] != 5
    assert np.all((table["train"][alike] > 0.37) & (table["train"][alike] < 0.6))
    assert np.all((table["norm"][alike] > 11) & (table["norm"][alike] < 14))
    assert np.all((table["test"][alike] > 1.0) & (table["test"][alike] < 1.3))
    assert np.all(table["test"] > 0.69)  # what the paper says of its own, larger runs
