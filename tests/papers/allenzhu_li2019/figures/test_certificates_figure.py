# SPDX-License-Identifier: Apache-2.0
import functools
import math
from dataclasses import replace

import jax
import numpy as np
import pytest

from unlazy import kernels
from unlazy.experiments import Cell, CellResult, Store, run_experiment
from unlazy.papers.allenzhu_li2019.figures import certificates
from unlazy.papers.allenzhu_li2019.figures.certificates.claims import _extremal, table
from unlazy.papers.allenzhu_li2019.figures.certificates.config import ALL, EXTREMAL, KERNELS, Sweep
from unlazy.papers.allenzhu_li2019.figures.certificates.plot import _spaced
from unlazy.papers.allenzhu_li2019.figures.certificates.run import kernel


def quiet(done, total):
    del done, total


@pytest.fixture(scope="module")
def smoke(smoke_store):
    """The report of the smallest preset and its cells, computed once."""
    out = smoke_store
    report = run_experiment(certificates.EXPERIMENT, "smoke", out=out)
    config = certificates.EXPERIMENT.preset("smoke").config
    results = {cell: Store(out).read(cell) for cell in certificates.cells(config)}
    return report, config, results


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke):
    report, _, _ = smoke
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert len(report.claims) == 1 + 5 + 1
    assert all(path.stat().st_size > 1000 for path in report.figures)


def test_kernels_by_distance_are_the_kernels():
    x = np.random.default_rng(0).choice([-1.0, 1.0], (6, 5))
    for name, direct in [
        ("gaussian", functools.partial(kernels.gaussian, bandwidth=5)),
        ("cubic", lambda a, b: (1 + a @ b.T / 5) ** 3),
    ]:
        np.testing.assert_allclose(kernel(name, 5)(x, x), direct(x, x), rtol=1e-12)


def test_the_bound_for_all_kernels_lies_below_each_of_them(smoke):
    _, config, results = smoke
    panel = config.panels[0]
    of = functools.partial(table, results)
    shared = of(panel.sweep(ALL), "min_ratio")
    for name in config.kernels:
        assert np.all(of(panel.sweep(name), "min_ratio") >= shared - 1e-9)


def test_fewer_features_than_coordinates_learn_nothing_and_the_claim_knows(smoke):
    # RN-48 with D = 5 < d = 8: no target, not minus three of them.
    _, config, _ = smoke
    panel = replace(config.panels[0], sizes=(5, 12))
    sweep = panel.sweep(EXTREMAL)
    good = certificates.run(sweep, seed=0, progress=quiet)
    np.testing.assert_array_equal(good.table["good"], [0, 4])
    claim = _extremal(panel, {Cell(certificates.NAME, certificates.VERSION, sweep): good})
    assert (panel.d, claim.measured) == (8, 0)


def test_labels_that_would_touch_are_left_out():
    assert _spaced((10, 12, 14, 20, 40)) == ["10", "", "14", "20", "40"]


def test_a_cell_is_the_same_whatever_the_precision_of_the_user():
    config = Sweep(8, 3, "arcsin", (5, 12))
    off = certificates.run(config, seed=1, progress=quiet).table
    with jax.enable_x64(True):
        on = certificates.run(config, seed=1, progress=quiet).table
    for name in off:
        assert off[name].tobytes() == on[name].tobytes(), name


def test_the_claims_can_fail(smoke):
    _, config, results = smoke
    broken = {}
    for cell, result in results.items():
        columns = dict(result.table)
        if "good" in columns:
            columns["good"] = columns["good"] + 100
            columns["fraction_bad"] = np.zeros_like(columns["fraction_bad"])
            columns["gap"] = np.ones_like(columns["gap"])
            columns["excess"] = -np.ones_like(columns["excess"])
        else:
            columns["difference"] = -np.ones_like(columns["difference"])
        broken[cell] = CellResult(columns)
    found = certificates.claims(config, broken)
    assert [claim.id for claim in found if claim.verdict != "refuted"] == []


def test_the_paper_preset_has_all_kernels_and_more_seeds():
    config = certificates.EXPERIMENT.preset("paper").config
    assert config.kernels == KERNELS
    assert config.seeds > certificates.EXPERIMENT.preset("quick").config.seeds
    learners = {cell.config.learner for cell in certificates.cells(config)}
    assert learners == {*KERNELS, EXTREMAL, ALL, "relu features"}
    assert all(panel.targets == math.comb(panel.d, panel.k) for panel in config.panels)
