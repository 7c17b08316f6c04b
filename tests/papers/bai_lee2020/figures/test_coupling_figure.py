# SPDX-License-Identifier: Apache-2.0
import dataclasses
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data, escape
from unlazy.experiments import Store, run_experiment
from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020.figures import coupling
from unlazy.papers.bai_lee2020.figures.coupling.config import Parts, Trained
from unlazy.papers.bai_lee2020.figures.coupling.run import rest_over_signs, structured_movement


def quiet(done, total):
    del done, total


@pytest.fixture(scope="module")
def smoke(smoke_store):
    """The report of the smallest preset and its cells, computed once."""
    out = smoke_store
    report = run_experiment(coupling.EXPERIMENT, "smoke", out=out)
    config = coupling.EXPERIMENT.preset("smoke").config
    results = {cell: Store(out).read(cell) for cell in coupling.cells(config)}
    return report, config, results


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke):
    report, _, _ = smoke
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert len(report.claims) == 12
    assert all(path.stat().st_size > 1000 for path in report.figures)


@pytest.mark.parametrize("width", [10, 256])
def test_the_movement_has_unit_norm(width):
    W = structured_movement(width, 8)
    np.testing.assert_allclose(np.linalg.norm(W, axis=1), width**-0.25, rtol=1e-6)
    assert float(escape.norm_2p(W, 4)) == pytest.approx(1, rel=1e-6)
    assert float(jnp.abs(W[0] @ W[-1])) == 0  # the halves move at right angles


def test_mean_and_spread_of_the_remainder_are_those_over_all_signs(x64, getkey):
    # BL-9, all 2^10 signs, and f^L and f^Q by finite differences of the network along t W.
    net = TwoLayer(4, 10, activation="relu3", init="symmetric")
    params, x = net.init(key=getkey()), data.sphere(5, 4, key=getkey())
    W = structured_movement(10, 4)
    W0, a, X, V = (np.asarray(value) for value in (params.W, params.a, x, W))

    def f(moved):
        return np.maximum(X @ moved.T, 0) ** 3 @ a / (6 * math.sqrt(10))

    signs = np.array(list(itertools.product((1.0, -1.0), repeat=10)))
    h = 1e-4
    rest = []
    for s in signs:
        up, down = f(W0 + h * s[:, None] * V), f(W0 - h * s[:, None] * V)
        linear, quadratic = (up - down) / (2 * h), (up + down - 2 * f(W0)) / (2 * h**2)
        rest.append(f(W0 + s[:, None] * V) - f(W0) - linear - quadratic)
    mean, spread = rest_over_signs(net, params, W, x)
    # The differences are off by h^2 and by rounding over h^2, about 1e-8.
    np.testing.assert_allclose(mean, np.mean(rest, axis=0), atol=1e-7)
    np.testing.assert_allclose(spread, np.std(rest, axis=0), atol=1e-7)
    assert np.min(spread) > 1e-5


@pytest.fixture(scope="module")
def sizes():
    return coupling.run(Parts((64, 128), draws=400), seed=0, progress=quiet).table


def test_sampled_sizes_agree_with_the_exact_ones_over_signs(sizes):
    # 400 draws: the relative noise of a mean square is below sqrt(2/400) = 7% even for one input,
    # that of a root 3.5%; 5 of these fail with probability below 1e-6.
    np.testing.assert_allclose(sizes["f_L_signs"], sizes["f_L_signs_expected"], rtol=0.17)
    exact = np.hypot(sizes["rest_signs_mean"], sizes["rest_signs_spread"])
    np.testing.assert_allclose(sizes["rest_signs"], exact, rtol=0.17)
    # f - f^Q is f^L plus the remainder; the two are correlated, so only the triangle is sure.
    assert np.all(sizes["gap_signs"] <= sizes["f_L_signs"] + sizes["rest_signs"])
    assert np.all(sizes["gap_signs"] >= sizes["f_L_signs"] - sizes["rest_signs"])


def test_sizes_depend_on_the_seed_and_not_on_the_other_widths_of_the_cell(sizes):
    same, other = (
        coupling.run(Parts((128,), draws=400), seed=seed, progress=quiet).table for seed in (0, 1)
    )
    for name in set(sizes) - {"width"}:
        assert same[name][0] == sizes[name][1] != other[name][0], name


def test_a_cell_is_the_same_whatever_the_precision_of_the_user():
    config = Trained(16, steps=5, n=20, n_test=20, draws=2)
    seen = []
    off = coupling.run(config, seed=1, progress=lambda *step: seen.append(step))
    with jax.enable_x64(True):
        on = coupling.run(config, seed=1, progress=quiet)
    for name in off.table:
        assert off.table[name].tobytes() == on.table[name].tobytes(), name
    assert off.table["norm"].dtype == np.float64
    assert seen[-1] == (5, 5)


def test_risks_of_a_network_that_has_not_moved_are_those_of_guessing():
    table = coupling.run(
        Trained(16, steps=0, n=20, n_test=20, draws=2), seed=0, progress=quiet
    ).table
    # The start is small: 0.1 of the natural size, so that f^L is of order .01 and f^Q of .0001.
    for name in ("risk_train", "risk_Q_train", "risk_test", "risk_Q_test"):
        assert table[name][0] == pytest.approx(math.log(2), abs=0.02)
    assert table["risk_Q_train"][0] != math.log(2)
    assert table["norm"][0] == pytest.approx(0.1, rel=0.5)


def test_the_claims_can_fail(smoke):
    _, config, results = smoke
    broken = {}
    for cell, result in results.items():
        table = dict(result.table)
        if isinstance(cell.config, Parts):
            table["f_L_signs"] = table["f_L_plain"]  # as if signs did nothing
            table["f_Q"] = table["f_Q_free"]
            table["rest_over_bound"] = 2 * table["rest_over_bound"] / table["rest_over_bound"].max()
        else:
            table["error_Q_test"] = np.array([0.5])
        broken[cell] = type(result)(table, result.arrays)
    verdicts = {claim.id: claim.verdict for claim in coupling.claims(config, broken)}
    for name in ("BL-T18/linear", "BL-T18/quadratic", "BL-26b", "BL-E1/error"):
        assert verdicts[name] == "refuted", name
    assert verdicts["BL-T18/lazy"] == "holds"


def test_recorded_numbers_are_claimed_only_of_networks_trained_as_long(smoke):
    _, config, results = smoke
    claimed = {}
    for width, steps in ((256, 599), (256, 600), (2048, 600)):
        trained = tuple(
            dataclasses.replace(one, width=width, steps=steps) for one in config.trained
        )
        other = dataclasses.replace(config, trained=trained)
        pairs = zip(coupling.cells(other), results.values(), strict=True)
        ids = [claim.id for claim in coupling.claims(other, dict(pairs))]
        claimed[width, steps] = [name for name in ids if name.startswith(f"BL-E1/{width}-")]
    assert [len(ids) for ids in claimed.values()] == [0, 6, 6]


def test_the_paper_preset_has_the_sizes_asked_for():
    config = coupling.EXPERIMENT.preset("paper").config
    assert config.parts.widths == tuple(2**k for k in range(7, 19))
    assert {one.steps for one in config.trained} == {1500}
    for preset in coupling.EXPERIMENT.presets.values():
        assert min(preset.config.parts_seeds, preset.config.trained_seeds) >= 3
        assert {(one.inputs, one.n) for one in preset.config.trained} == {(10, 200)}
    assert len({cell.digest for cell in coupling.cells(config)}) == 10 + 90
