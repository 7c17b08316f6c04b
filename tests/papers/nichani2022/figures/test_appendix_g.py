# SPDX-License-Identifier: Apache-2.0
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import taylor
from unlazy.core.drawing import style
from unlazy.experiments import CellResult
from unlazy.papers.nichani2022.figures import appendix_g
from unlazy.papers.nichani2022.figures.appendix_g.config import SETTINGS, Baselines, Config, Courses
from unlazy.papers.nichani2022.figures.appendix_g.run import draw_courses
from unlazy.papers.nichani2022.figures.trials import Problem

TINY = Baselines(Problem(4, 12, 8, n_test=20, n_unlabelled=15), trials=2, steps=4)
TANH = Courses("tanh", 3, 8, 4, 0.05, 6, 3, 2, 10)
SIGMOID = Courses("sigmoid", 3, 8, 4, 1.0, 4, 2, 2, 10)
CONFIG = Config(
    Baselines(Problem(30, 164, 1000, n_unlabelled=600)),
    (Courses("tanh", 10, 150, 64, 0.02, 100, 50), Courses("tanh", 10, 150, 512, 0.02, 100, 50)),
    Courses("sigmoid", 20, 200, 400, 5.0, 100, 50),
)


def quiet(done, total):
    del done, total


@pytest.mark.slow
def test_all_settings_are_trained_and_r1_is_measured():
    table = appendix_g.run(TINY, seed=0, progress=quiet).table
    assert table["setting"].tolist() == list(SETTINGS) * 2
    for name in ("train", "test", "r1", "r3"):
        assert np.isfinite(table[name]).all()
    alone = appendix_g.run(TINY, seed=1, progress=quiet).table  # shares its first trial
    second = table["seed"] == 1
    np.testing.assert_allclose(
        table["test"][second][:4], alone["test"][alone["seed"] == 1][:4], rtol=1e-2
    )  # but for the start of 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("config", [TANH, SIGMOID], ids=lambda config: config.network)
def test_models_of_all_orders_are_trained_from_the_start_that_they_share(config):
    table = appendix_g.run(config, seed=0, progress=quiet).table
    net, train, test = draw_courses(config, range(config.seeds))
    start = jax.tree.map(lambda leaf: leaf[1], train.start)
    network = jnp.zeros(config.n_test)
    for order in (0, 1, 2):
        model = net if order == 0 else taylor.expand(net, start, order)

        def loss(params, model=model):
            return jnp.mean((model(params, train.x[1]) - train.y[1]) ** 2)

        params = start
        for _ in range(config.steps):
            slope = jax.grad(loss)(params)
            moved = jax.tree.map(lambda p, g: p - config.learning_rate * g, params, slope)
            if config.network == "sigmoid":  # its readout is fixed
                moved = type(moved)(W=moved.W, a=params.a)
            params = moved
        row = (table["order"] == order) & (table["seed"] == 1) & (table["step"] == config.steps)
        expected = jnp.mean((model(params, test.x[1]) - test.y[1]) ** 2)
        np.testing.assert_allclose(table["test"][row], expected, rtol=1e-4)
        np.testing.assert_allclose(table["train"][row], loss(params), rtol=1e-4)
        f = model(params, test.x[1])
        if order == 0:
            network = f
        gap = jnp.sqrt(jnp.mean((f - network) ** 2))
        np.testing.assert_allclose(table["gap"][row], gap, rtol=1e-3, atol=1e-6)


def made_up(*, r3=0.22, both=0.35, r1=0.07, alone=1.5, quadratic=0.1, early=0.4, late=0.4):
    """Results in which all is well, or as they are told to."""
    results = {}
    test = {"neither": 0.74, "R3": r3, "R1": 0.71, "R1 and R3": both}
    for cell in appendix_g.cells(CONFIG):
        one, rows = cell.config, []
        if isinstance(one, Baselines):
            for seed in range(one.trials):
                factor = (0.8, 1.4, 1.0)[seed]
                for name in SETTINGS:
                    left = {"neither": 0.15}.get(name, r1)
                    rows.append((seed, name, 1e-4, factor * test.get(name, alone), left, 0.1))
            names = ("seed", "setting", "train", "test", "r1", "r3")
        else:
            names = ("order", "seed", "step", "train", "test", "gap")
            for order in (0, 1, 2):
                for step in range(0, one.steps + 1, one.record_every):
                    for seed in range(one.seeds):
                        gap = {0: 0.0, 1: 0.4 * 64 / one.width, 2: quadratic * 64 / one.width}[
                            order
                        ]
                        if one.network == "sigmoid" and order:
                            gap = 0.5 if order == 1 else late
                            if step == 50:
                                gap = 0.2 if order == 1 else early
                        rows.append((order, seed, step, 0.0, 0.5 + (order != 2), gap))
        pairs = zip(names, zip(*rows, strict=True), strict=True)
        results[cell] = CellResult({name: np.array(column) for name, column in pairs})
    return results


def unexpected(**changes):
    listed = appendix_g.claims(CONFIG, made_up(**changes))
    return {claim.id.split("/")[1] for claim in listed if not claim.as_expected}


def test_made_up_results_in_which_all_is_well_refute_nothing_and_others_do():
    assert unexpected() == set()
    assert "r1" in unexpected(r1=0.14)
    assert "unneeded" in unexpected(both=0.2)
    assert {"f_L-alone", "f_Q-alone", "recorded"} <= unexpected(alone=0.3)
    assert {"gap-64", "gap-512"} <= unexpected(quadratic=0.35)
    assert "counter-example" in unexpected(early=0.1)
    assert "counter-example-end" in unexpected(late=0.6)


def test_the_figure_has_four_panels_with_titles():
    with style():
        fig = appendix_g.plot(CONFIG, made_up())
    assert len(fig.axes) == 4
    assert all(ax.get_title() for ax in fig.axes)


def test_a_course_that_diverges_is_nan_from_there_on_and_refutes_its_claims(recwarn):
    wild = dataclasses.replace(TANH, learning_rate=1e4, steps=40, record_every=5)
    table = appendix_g.run(wild, seed=0, progress=quiet).table
    assert np.unique(table["step"]).tolist() == list(range(0, 41, 5))
    assert len(table["step"]) == 3 * 9 * wild.seeds
    assert np.isnan(table["test"][table["step"] == wild.steps]).all()
    assert np.isfinite(table["test"][table["step"] == 0]).all()
    assert any("diverged" in str(warning.message) for warning in recwarn)
    config = dataclasses.replace(CONFIG, courses=(wild,))
    results = made_up() | {appendix_g.cells(config)[1]: CellResult(table)}
    (gap,) = [c for c in appendix_g.claims(config, results) if c.id == f"NB-53/gap-{wild.width}"]
    assert gap.verdict == "refuted"
