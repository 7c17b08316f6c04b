# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.experiments import CellResult, Store, run_experiment
from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019.figures import figure3, samples
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.config import Training
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.run import (
    Error,
    Objective,
    Penalized,
    decay_second_layer,
)
from unlazy.papers.shared.grids.learner import Samples
from unlazy.train import fit_grid

# Half a minute; the grid engine and the linear models have tests of their own.


def quiet(done, total):
    del done, total


@pytest.fixture(scope="module")
def smoke(smoke_store):
    """The report of the smallest preset and its cells, computed once."""
    out = smoke_store
    report = run_experiment(figure3.EXPERIMENT, "smoke", out=out)
    config = figure3.EXPERIMENT.preset("smoke").config
    results = {cell: Store(out).read(cell) for cell in figure3.cells(config)}
    return report, config, results


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke):
    report, _, _ = smoke
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert len(report.claims) == 7
    assert all(path.stat().st_size > 1000 for path in report.figures)


def test_the_ratio_of_the_best_lane_lies_between_one_and_the_width(smoke):
    _, config, results = smoke
    for cell, result in results.items():
        table = result.table
        for seed in range(config.seeds):
            rows = np.flatnonzero(table["seed"] == seed)
            best = rows[np.argmin(table["test"][rows])]
            for name in ("spread", "spread_moved"):
                assert 1 <= table[name][best] <= cell.config.width
            assert table["moved"][best] > 0


def test_the_penalty_replaces_the_decay_on_the_first_layer_alone(x64):
    # Two full-batch steps by hand: g_W = dL/dW + 4 lam |w_i|^2 w_i, g_V = dL/dV + wd V.
    net, lr, wd, lam_w = ThreeLayer(4, 6, init="learner"), 0.01, 0.3, 0.2
    split = samples.draw("composed-sines", 20, 1, 5, seed=0)
    x, y = (jnp.asarray(leaf, jnp.float64) for leaf in split.train)
    params = jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), net.init(key=jr.key(1)))
    trained = fit_grid(
        Objective(net),
        Penalized(params, jnp.asarray(lam_w, jnp.float64)),
        Samples(x, y),
        learning_rates=[lr],
        weight_decays=[wd],
        epochs=2,
        optimizer=decay_second_layer,
        trained=lambda path: path.rstrip("'\"]").endswith(("W", "V")),
        keep="all",
    ).kept[0]

    def error(W, V):
        moved = type(params)(W=W, b1=params.b1, V=V, b2=params.b2, a=params.a)
        return jnp.mean((net(moved, x) - y) ** 2)

    W, V, v_W, v_V = params.W, params.V, 0.0, 0.0
    for _ in range(2):
        g_W, g_V = jax.grad(error, argnums=(0, 1))(W, V)
        v_W = 0.9 * v_W + g_W + 4 * lam_w * jnp.sum(W**2, axis=1, keepdims=True) * W
        v_V = 0.9 * v_V + g_V + wd * V
        W, V = W - lr * v_W, V - lr * v_V
    np.testing.assert_allclose(trained.net.W, W, rtol=1e-10)
    np.testing.assert_allclose(trained.net.V, V, rtol=1e-10)
    np.testing.assert_array_equal(trained.net.b1, params.b1)
    assert float(trained.lam_w) == lam_w


def test_cells_of_one_size_share_their_programs():
    one, other = (ThreeLayer(samples.INPUTS, 16, init="learner") for _ in range(2))
    for function in (Objective, Error):
        assert function(one) == function(other)
        assert hash(function(one)) == hash(function(other))


def test_a_stronger_penalty_leaves_a_smaller_and_better_spread_norm():
    # Each strength alone, so that each is its own best lane.
    def trained(strength):
        one = Training("norm", 16, (0.02,), (1e-4,), (strength,), 1, 100, 100, 0, 50, 20, 50)
        table = figure3.run(one, seed=0, progress=quiet).table
        return table["norm"][0], table["spread"][0]

    weak, strong = trained(0.0), trained(1e-3)
    assert strong[0] < 0.8 * weak[0]
    assert strong[1] < weak[1]


def test_strengths_are_replicates_of_one_seed():
    one = Training("norm", 8, (0.02, 0.05), (1e-4,), (0.0, 1e-4), 2, 60, 4, 0, 20, 20, 30)
    table = figure3.run(one, seed=0, progress=quiet).table
    assert len(table["seed"]) == 2 * 2 * 2
    alone = replace(one, strengths=(1e-4,), seeds=1)
    expected = figure3.run(alone, seed=1, progress=quiet).table
    rows = (table["seed"] == 1) & (table["strength"] == 1e-4)
    for name in ("learning_rate", "test", "train"):
        np.testing.assert_allclose(table[name][rows], expected[name], rtol=2e-4)


def test_the_claims_can_fail(smoke):
    _, config, results = smoke

    def verdicts(penalty, column, factor):
        changes = {
            cell: CellResult(result.table | {column: result.table[column] * factor})
            if cell.config.penalty == penalty
            else result
            for cell, result in results.items()
        }
        return {c.id.split("/")[1]: c.verdict for c in figure3.claims(config, changes)}

    assert verdicts("norm", "test", 2.0)["error"] == "refuted"
    assert verdicts("norm", "spread", 2.0)["smaller"] == "refuted"
    assert verdicts("norm", "spread", 2.0)["smaller-widths"] == "refuted"
    assert verdicts("norm", "spread", 0.5)["smaller"] == "holds"
    assert verdicts("decay", "spread", 10.0)["far"] == "refuted"
    assert verdicts("decay", "spread", 10.0)["order"] == "refuted"
    assert verdicts("norm", "spread_moved", 100.0)["moved"] == "refuted"


def test_the_paper_preset_has_the_sizes_of_the_paper():
    config = figure3.EXPERIMENT.preset("paper").config
    assert config.widths() == [200, 500, 1000, 2000, 5000]
    assert config.seeds == 3
    assert {one.epochs for one in config.trainings} == {800}
    for one in config.trainings:
        assert (one.strengths == (0.0,)) == (one.penalty == "decay")
