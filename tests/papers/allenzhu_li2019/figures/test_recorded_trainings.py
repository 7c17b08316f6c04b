# SPDX-License-Identifier: Apache-2.0
"""Trainings on record for Figures 2 and 3, trained again from other seeds and samples.

`test_figure_two.py` has the other numbers. One seed each on record, the best lane by the test set.
All lanes on record were trained once for the numbers called ours; of them the tests train those
about the best ones.
"""

import numpy as np
import pytest

from unlazy.papers.allenzhu_li2019.figures import figure2, figure3
from unlazy.papers.allenzhu_li2019.figures.figure2.config import Training
from unlazy.papers.allenzhu_li2019.figures.figure3.config import Sweep
from unlazy.papers.allenzhu_li2019.figures.samples import Task
from unlazy.papers.shared.grids.tuning import Grid

SMALL = Task(400, 16, n_validation=100, n_test=2000)
LINE = 0.72  # k alpha^2, what F alone leaves in d = 16
DECAYS = (1e-4, 5e-4, 1e-3, 2e-3)  # times the rates .002, .005, .01, .02, .05: 20 lanes


def quiet(done, total):
    del done, total


def best(task, method, width, grid, *, epochs=200, seeds=2):
    """The test error of the best lane of SGD, by seed."""
    training = Training(task, method, width, grid, epochs, seeds)
    table = figure2.EXPERIMENT.run(training, seed=0, progress=quiet).table
    trained = table["solver"] == "sgd"
    return np.array([np.min(table["test"][trained & (table["seed"] == s)]) for s in range(seeds)])


@pytest.mark.slow
@pytest.mark.parametrize(("m", "recorded"), [(20, 0.081), (50, 0.043), (100, 0.136), (200, 0.155)])
def test_the_resnet_learns_the_composite_at_every_width(m, recorded):
    # RN-64 on the 20 lanes. Two seeds of ours: .07 and .11, .03 twice, .07 and .10, .18 and .05, at
    # the rates .02 and .05.
    errors = best(SMALL, "3resnet(all)", m, Grid((0.02, 0.05), DECAYS, 0))
    assert np.all(errors < 0.4 * LINE)
    assert recorded / 2.5 < np.mean(errors) < 2.5 * recorded


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "rates", "recorded", "spread"),
    [("3layer(all)", (0.02, 0.05), 1.16, 0.25), ("2layer(all)", (0.002, 0.005), 1.09, 0.1)],
)
def test_plain_networks_of_a_hundred_neurons_do_not_learn_it(method, rates, recorded, spread):
    # RN-64, the 20 lanes, m = 100. Ours: .95 and 1.30 for three layers, at the corner (.05, .002),
    # and 1.08 and 1.06 for two, at (.002, .002).
    errors = best(SMALL, method, 100, Grid(rates, (1e-3, 2e-3), 0))
    np.testing.assert_allclose(errors, recorded, rtol=spread)
    assert np.all(errors > LINE)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "recorded"),
    [
        ("3resnet(last)", 5.50),
        ("2layer(last)", 5.48),
        ("3layer(last)", 7.17),
        ("2layer(NTK)", 3.99),
        ("3resnet(NTK)", 4.08),
        ("3layer(NTK)", 4.78),
    ],
)
def test_kernels_of_a_hundred_neurons_by_sgd_stay_far_above_the_line(method, recorded):
    # RN-64, rates .002, .01, .02, .05, .1; the decay is not on record, ours is 1e-4. Ours: 5.81 to
    # 5.84, 5.72 to 5.81, 7.2 to 7.4, 3.8, 3.8, 5.1: within 8 %, at .02 and, tangent kernels, .01.
    rates = (0.01,) if "NTK" in method else (0.01, 0.02, 0.05)
    task = Task(400, 16, n_validation=10, n_test=1000)
    error = best(task, method, 100, Grid(rates, (1e-4,), 0), seeds=1)[0]
    assert error == pytest.approx(recorded, rel=0.14)
    assert error > 4 * LINE


@pytest.mark.slow
def test_hidden_layers_alone_need_more_than_four_hundred_samples():
    # RN-65, N = 400: .76, where N = 800 has .072. Six seeds of ours: .34 to .96, nearly all at a
    # rate of .2, of .02 to .2.
    grid = Grid((0.1, 0.2), (5e-4, 1e-3, 2e-3), 0)
    errors = best(SMALL, "3resnet(hidden)", 100, grid, seeds=3)
    assert np.all((errors > 0.25) & (errors < 1.1))


@pytest.mark.slow
def test_the_jump_lies_at_or_just_above_alpha():
    # RN-66, over k alpha^2: 1.53, 1.68, 1.79, .037, .021, .017, .013 for the betas below but .4.
    # Two seeds of ours agree but at beta = .3 = alpha: there eight give .49 to 1.81, and three of
    # them on other batches, with and without replacement, .27 to .73; none comes near .037. A run
    # at the jump is chance; from .4 on (.03 to .32 in eight seeds) the composite is learnt.
    betas = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)
    grid = Grid((0.02, 0.05, 0.1), (1e-3, 3e-3), 0)
    sweep = Sweep("3resnet(all)", SMALL, 50, betas, grid, 200, 1)
    table = figure3.EXPERIMENT.run(sweep, seed=0, progress=quiet).table
    errors = np.array([np.min(table["test"][table["beta"] == beta]) for beta in betas]) / LINE
    np.testing.assert_allclose(errors[:3], [1.53, 1.68, 1.79], rtol=0.15)
    assert 0.02 < errors[3] < 2
    assert errors[4] < 0.6
    assert np.all((errors[5:] > 0.005) & (errors[5:] < 0.12))


@pytest.mark.slow
def test_a_hundred_neurons_do_not_learn_the_benchmark_with_little_decay():
    # RN-63, d = 30, N = 500, m = 100, 400 epochs, decays up to .005: 1.83, above the line at 1.35.
    # Ours: 1.68 and 1.85, on all lanes of rates .005 to .05 and decays .0005 to .005.
    task = Task(500, 30, n_validation=100, n_test=2000)
    grid = Grid((0.02, 0.05), (2e-3, 5e-3), 0)
    errors = best(task, "3resnet(all)", 100, grid, epochs=400)
    np.testing.assert_allclose(errors, 1.83, rtol=0.2)
    assert np.all(errors > 1.35)


@pytest.mark.slow
def test_fifty_neurons_come_near_the_line_of_the_benchmark():
    # RN-63, d = 30, N = 500, m = 50, 500 epochs: 1.16. Three seeds of ours, each in two programs
    # that differ by rounding alone: 1.75 and .49, .85 and .83, 2.25 and 1.63, at rates of .02 and
    # .05. So one run says little: their logarithms have mean .13 and deviation .57, and the bounds
    # for one run are 2.6 deviations away or more, which fails for one rounding in some 70. The zero
    # predictor has 16.35, the line is at 1.35.
    task = Task(500, 30, n_validation=100, n_test=2000)
    grid = Grid((0.02, 0.05), (1e-3, 3e-3, 6e-3, 1e-2), 0)
    errors = best(task, "3resnet(all)", 50, grid, epochs=500, seeds=3)
    assert np.all((errors > 0.15) & (errors < 5))
    assert 0.5 * 1.16 < np.mean(errors) < 2.2 * 1.16
