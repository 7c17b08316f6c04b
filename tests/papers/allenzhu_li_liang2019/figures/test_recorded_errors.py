# SPDX-License-Identifier: Apache-2.0
"""The errors on record for Figures 1 and 2 at reduced sizes, LG-51 and LG-52, trained again.

Other generators gave other samples and starts, and many numbers are of one seed: a number agrees if
it lies in the range of our seeds, widened by 30 % at either end. Learning rates and decays are the
recorded ones where they are known, else the best of our own grids.
"""

import functools
from typing import NamedTuple

import numpy as np
import pytest

from unlazy.papers.allenzhu_li_liang2019.figures import samples
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import Grid, Point, Size
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.recorded import PLACE, RECORDED
from unlazy.papers.allenzhu_li_liang2019.figures.comparison.run import RIDGES, run
from unlazy.papers.allenzhu_li_liang2019.figures.learners import KERNELS, METHODS, linear_models
from unlazy.papers.shared.grids.ridge import ridge_table
from unlazy.papers.shared.grids.tuning import best_rows

SINES, TANHS = "composed-sines", "composed-tanhs"
# At m = 128; of the last layers two rates, as the larger one diverges in some seeds.
LANES = {
    "3layer": ((0.005,), 1e-4),
    "2layer": ((0.02,), 1e-5),
    "3layer(NTK)": ((0.02,), 1e-4),
    "2layer(NTK)": ((0.02,), 1e-4),
    "3layer(last)": ((1.0, 2.0), 1e-7),
    "2layer(last)": ((1.0, 2.0), 1e-7),
}


def quiet(done, total):
    del done, total


class Found(NamedTuple):
    """By seed: errors of the lane that is best on the test set, and the best exact ones."""

    test: np.ndarray
    train: np.ndarray
    ridge: np.ndarray | None  # of kernels


@functools.cache
def trained(target, method, size, rates, decay, seeds=3):
    grid = Grid(rates, (decay,), 0)
    point = Point(target, method, size, grid, seeds, n_validation=10)
    table = run(point, seed=0, progress=quiet).table
    sgd, ridge = (
        {name: column[table["solver"] == solver] for name, column in table.items()}
        for solver in ("sgd", "ridge")
    )
    test, train = (column[rows(sgd, seeds)] for column in (sgd["test"], sgd["train"]))
    exact = ridge["test"][rows(ridge, seeds)] if method in KERNELS else None
    return Found(test, train, exact)


def rows(table, seeds):
    best = best_rows(table, "test")
    return [best[seed] for seed in range(seeds)]


def solved(method, width, n, seeds=3):
    """Test errors of ridge regression alone, with the best ridge, by seed."""
    chosen = tuple(range(seeds))
    splits = [samples.draw(SINES, n, 10, 2000, seed=seed) for seed in chosen]
    models = linear_models(method, width, splits, chosen)
    table = ridge_table(models, splits, chosen, RIDGES)
    return table["test"][rows(table, seeds)]


def agrees(found, recorded, factor=1.3):
    return found.min() / factor < recorded < factor * found.max()


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("target", [SINES, TANHS])
def test_every_method_has_the_recorded_errors(target, method):
    # The tables of LG-51 and LG-52: m = 128, N = 1000, 200 epochs, three seeds each.
    record, found = RECORDED[target], trained(target, method, PLACE, *LANES[method])
    assert agrees(found.test, np.mean(record.test[method])), found
    if method in record.train:
        assert agrees(found.train, np.mean(record.train[method])), found
    if method in KERNELS:
        # One seed on record. That of LG-51 had an unlucky start for 2layer(NTK), 21.6 exactly and
        # 22.3 by SGD, where the other two had 15.2 and 16.9 by SGD; ours are 13.4 to 16.2.
        assert agrees(found.ridge, record.ridge[method], 1.4), found


@pytest.mark.slow
@pytest.mark.parametrize("target", [SINES, TANHS])
def test_methods_are_ordered_as_recorded(target):
    tests = {method: trained(target, method, PLACE, *LANES[method]).test for method in METHODS}
    others = np.min([tests[method] for method in METHODS if method != "3layer"], axis=0)
    assert np.all(tests["3layer"] < 0.1 * others)
    assert np.all(tests["3layer(NTK)"] < tests["2layer"])  # in every setting on record
    if target == SINES:
        # On record in three of three seeds: 2layer below these and 2layer(NTK).
        assert np.all(tests["2layer"] < np.minimum(tests["3layer(last)"], tests["2layer(last)"]))
        # The last fails in one of our three and two of our six seeds, by 4 % and 0.4 %: the place
        # of 2layer is not robust. It holds for the means, 14.8 against 15.9, as a kernel has
        # unlucky starts (22.3 on record, 20.0 here) and the network none.
        pair = [
            trained(target, method, PLACE, *LANES[method], 6).test
            for method in ("2layer", "2layer(NTK)")
        ]
        assert pair[0].mean() < pair[1].mean()
        assert np.sum(pair[0] < pair[1]) >= 3
    else:
        order = np.sort([test.mean() for test in tests.values()])
        assert tests["2layer"].mean() >= order[-2]  # worst or second worst


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "rates", "decay", "by_sgd", "exactly"),
    [
        ("2layer(NTK)", (0.005, 0.01), 1e-4, 11.7, 10.9),
        ("2layer(last)", (0.5, 1.0), 1e-7, 15.9, 4.2),
        ("3layer(last)", (0.5, 1.0), 1e-7, 17.0, 6.0),
    ],
)
def test_wider_kernels_have_the_recorded_errors(method, rates, decay, by_sgd, exactly):
    # LG-51, m = 512, 200 epochs, one seed; grids whose optimum was partly on the edge, so that for
    # the last layers ours is lower with a rate of 2.
    found = trained(SINES, method, Size(512, 1000, 200), rates, decay)
    assert agrees(found.test, by_sgd), found
    assert agrees(found.ridge, exactly), found
    assert np.all(found.ridge < wide_network())


def wide_network():
    return trained(SINES, "2layer", Size(512, 1000, 400), (0.002, 0.005), 1e-4).test


@pytest.mark.slow
def test_a_wider_network_of_two_layers_has_the_recorded_error():
    # LG-51, m = 512, one seed: 13.4 after 400 epochs; exactly solved, 3layer(NTK) has 7.3 there.
    assert agrees(wide_network(), 13.4), wide_network()
    found = solved("3layer(NTK)", 512, 1000)
    assert agrees(found, 7.3), found
    assert np.all(found < wide_network())
    # LG-52, 8.4.
    second = trained(TANHS, "2layer", Size(512, 1000, 200), (0.002, 0.005), 1e-4)
    assert agrees(second.test, 8.4), second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "rates", "decay", "recorded"),
    [
        ("3layer(NTK)", (0.02,), 1e-4, 9.4),
        ("2layer", (0.005, 0.01), 1e-4, 14.7),
        ("3layer(last)", (1.0, 2.0), 1e-7, 17.5),
        ("2layer(last)", (1.0, 2.0), 1e-7, 18.9),
    ],
)
def test_the_papers_epochs_give_the_recorded_errors(method, rates, decay, recorded):
    # LG-51, m = 128, 800 epochs, one seed.
    found = trained(SINES, method, Size(128, 1000, 800), rates, decay)
    assert agrees(found.test, recorded), found


def swept(width, n):
    """Six seeds at the rates of the recorded sweeps, 2000 steps: of 3layer and of 2layer."""
    size = Size(width, n, 100_000 // n)
    rates = tuple(rate / width for rate in (0.3, 0.6, 1.2))
    deep = trained(SINES, "3layer", size, rates, 1e-4, 6)
    flat = trained(SINES, "2layer", size, tuple(2 * rate for rate in rates), 1e-4, 6)
    return deep.test, flat.test


@pytest.mark.slow
def test_errors_fall_with_the_width_as_recorded():
    # LG-51, N = 1000, 100 epochs, one seed: m = 16, 32, 64, 128.
    means = []
    for width, deep, flat in (
        (16, 3.78, 30.6), (32, 1.50, 23.1), (64, 0.84, 17.2), (128, 0.52, 15.7)
    ):  # fmt: skip
        found = swept(width, 1000)
        assert agrees(found[0], deep), (width, found)
        assert agrees(found[1], flat), (width, found)
        means.append([test.mean() for test in found])
    assert np.all(np.diff(means, axis=0) < 0)


@pytest.mark.slow
def test_errors_fall_with_the_samples_as_recorded():
    # LG-51, m = 64, 2000 steps, one seed: N = 200, 500, 2000; N = 1000 is in the other sweep.
    means = []
    for n, deep, flat in ((200, 4.28, 25.4), (500, 1.39, 18.5), (2000, 0.69, 17.4)):
        found = swept(64, n)
        assert agrees(found[0], deep), (n, found)
        assert agrees(found[1], flat), (n, found)
        means.append([test.mean() for test in found])
        if n == 500:  # "smoke size", another run of the record at the same size and steps
            assert agrees(found[0], 1.66), found
            assert agrees(found[1], 24.5), found
    assert np.all(np.diff(means, axis=0) < 0)


@pytest.mark.slow
def test_exact_kernels_at_the_smoke_size_are_between_the_recorded_errors():
    # LG-51, m = 64, N = 500, one seed: "ridge kernels 12.3-27.2", by kernel.
    found = np.array([solved(method, 64, 500) for method in KERNELS])
    assert agrees(found.min(axis=0), 12.3), found
    assert agrees(found.max(axis=0), 27.2), found
