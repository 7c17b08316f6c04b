# SPDX-License-Identifier: Apache-2.0
"""BL-E5: the figure end to end, what its cells compute, and claims that can fail."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import curvature
from unlazy.experiments import Cell, CellResult, run_experiment
from unlazy.papers import bai_lee2020
from unlazy.papers.bai_lee2020.figures import landscape as figure
from unlazy.papers.bai_lee2020.figures.landscape.claims import claims, widths_of
from unlazy.papers.bai_lee2020.figures.landscape.config import Config, Descents, cells
from unlazy.papers.bai_lee2020.figures.landscape.run import _multiples, problem_of
from unlazy.papers.shared.settings import reproducible

# Half a minute of compilation; the other figures of this paper are run each time.


def quiet(done, total):
    del done, total


@pytest.fixture(scope="module")
def report(smoke_store):
    return run_experiment(figure.EXPERIMENT, "smoke", out=smoke_store)


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(report):
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert len(report.claims) == 17
    assert all(path.stat().st_size > 1000 for path in report.figures)


def test_a_cell_is_the_same_the_second_time_whatever_the_precision():
    config = Descents(4, kicked=1, random=1, n=40)
    runs = []
    for x64 in (False, True):
        with jax.enable_x64(x64):
            runs.append(figure.run(config, seed=1, progress=quiet))
    for name, column in runs[0].table.items():
        np.testing.assert_array_equal(column, runs[1].table[name], err_msg=name)


def test_progress_reaches_its_total_only_with_the_cell():
    told = []
    config = Descents(4, kicked=1, random=1, n=40)
    figure.run(config, seed=0, progress=lambda *step: told.append(step))
    assert told == [(1, 3), (2, 3)]


def test_the_ends_satisfy_the_bound_by_an_independent_route(x64):
    # BL-23 written out, at the end that the cell reports; its loss is recomputed from scratch.
    config = Descents(4, kicked=1, random=1, n=40)
    result = figure.run(config, seed=2, progress=quiet)
    key, _ = jr.split(jr.fold_in(jr.key(5), 2))
    with reproducible(x64=True):
        net, params, risk = problem_of(config, key=key)
    W_star = float(result.arrays["by_hand_scale"]) * jnp.asarray(
        bai_lee2020.two_xor(net, params).dW
    )
    x, y = np.asarray(risk.x), np.asarray(risk.y)
    Z0, Z = x @ np.asarray(params.W).T, x @ np.asarray(W_star).T
    f = (np.maximum(Z0, 0) * Z**2) @ np.asarray(params.a) / (2 * math.sqrt(4))
    norm8 = np.sum(np.sum(np.asarray(W_star) ** 2, axis=1) ** 2) ** 2
    by_hand = np.mean(np.log1p(np.exp(-y * f))) + 1e-5 * norm8
    assert result.arrays["by_hand"] == pytest.approx(by_hand, rel=1e-12)
    assert result.arrays["bound"] >= result.table["loss"][0]
    assert result.arrays["least_bound"] <= result.arrays["bound"]


def test_the_best_multiple_is_better_than_its_neighbours(x64):
    net, params, risk = problem_of(Descents(16, n=80), key=jr.key(3))
    W = jnp.asarray(bai_lee2020.two_xor(net, params).dW)
    scales = jnp.array([0.3, 1.0, 1.7])
    expected = [float(risk(c * W)) for c in scales]
    np.testing.assert_allclose(_multiples(risk, W, scales), expected, rtol=1e-12)


def test_the_start_is_a_saddle_by_its_dense_spectrum(x64):
    net, _, risk = problem_of(Descents(16), key=jr.key(4))
    start = curvature.certify(risk, jnp.zeros((net.width, net.inputs)), key=jr.key(0))
    assert start.verdict == "saddle"
    assert start.curvature.dense


def made_up(config, *, trapped=0.1, kicked=0.0, bound=0.5):
    """Results of a figure in which all is well, except as told."""
    results = {}
    for cell in cells(config):
        d: Descents = cell.config
        runs = d.kicked + d.random
        loss = np.full(runs, 0.3)
        loss[0] += kicked
        if d.width == 4:
            loss[-1] += trapped
        table = {
            "random": np.arange(runs) >= d.kicked,
            "loss": loss,
            "arrived": np.ones(runs, bool),
            "curvature": np.full(runs, 0.01),
            "norm": np.ones(runs),
        }
        scalars = {
            "start_curvature": -0.5,
            "radius": 3.4,
            "by_hand": 0.35,
            "bound": bound + 1 / d.width,
            "least_bound": bound,
            "slack": 1 / d.width,
            "dense_curvature": 0.01,
            "lanczos_curvature": 0.01,
        }
        arrays = {name: np.asarray(value) for name, value in scalars.items()}
        arrays["plain_loss"] = np.full(3, math.log(2))
        results[cell] = CellResult(table, arrays)
    return results


CONFIG = Config(tuple(Descents(m) for m in (4, 16, 64, 256)), 3)


def refuted(**changes):
    found = claims(CONFIG, made_up(CONFIG, **changes))
    return {c.id for c in found if not c.as_expected and c.id.split("-")[-1] not in "4 16 64 256"}


def test_made_up_results_in_which_all_is_well_refute_nothing():
    assert refuted() == set()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"trapped": 0.0}, {"BL-E5/random-narrow"}),
        ({"kicked": 1e-3}, {"BL-E5/seeds"}),
        ({"kicked": 0.3}, {"BL-E5/seeds", "BL-E5/by-hand"}),
        ({"bound": 0.2}, {"BL-23/valid"}),
    ],
)
def test_claims_can_fail(change, expected):
    assert refuted(**change) == expected


def test_an_end_counts_as_trapped_only_where_it_is_a_minimum():
    results = made_up(CONFIG)
    assert widths_of(CONFIG, results)[0].trapped.sum() == 3
    for cell, result in results.items():
        if cell.config.width == 4:
            result.table["curvature"][-1] = -0.01
    assert widths_of(CONFIG, results)[0].trapped.sum() == 0


def test_every_cell_of_a_preset_is_its_own():
    for preset in figure.EXPERIMENT.presets.values():
        listed = cells(preset.config)
        assert len(set(listed)) == len(listed)
    one = cells(CONFIG)[0]
    other = replace(one.config, strength=1e-4)
    assert Cell(one.experiment, one.version, other, one.seed) != one
