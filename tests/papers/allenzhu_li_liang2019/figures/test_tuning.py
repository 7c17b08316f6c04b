# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.papers.allenzhu_li_liang2019.figures.comparison.config import grid_of
from unlazy.papers.allenzhu_li_liang2019.figures.learners import METHODS
from unlazy.papers.shared.grids.lattice import between, decade_beyond, nearest, point
from unlazy.papers.shared.grids.tuning import best_rows, tune


class Bowl:
    """A grid whose error is least at one rate and decay for each seed; counts what it trains."""

    def __init__(self, best, seeds=(0,), diverges_from=math.inf):
        self.best, self.seeds, self.diverges_from = best, seeds, diverges_from
        self.trained = []

    def __call__(self, rates, decays):
        rows = []
        for rate in rates:
            for decay in decays:
                self.trained.append((rate, decay))
                for seed in self.seeds:
                    lr, wd = self.best[seed]
                    error = math.log(rate / lr) ** 2 + math.log((decay + 1e-9) / wd) ** 2
                    rows.append((rate, decay, seed, error if rate < self.diverges_from else np.inf))
        names = ("learning_rate", "weight_decay", "seed", "test")
        return {
            name: np.array(column)
            for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }


def test_the_lattice_is_what_one_would_write():
    assert between(1e-7, 1e-2)[:4] == (1e-07, 2e-07, 5e-07, 1e-06)
    assert len(between(1e-7, 1e-2)) == 16
    assert [point(nearest(point(i))) for i in range(-9, 9)] == [point(i) for i in range(-9, 9)]
    assert decade_beyond(between(1, 10), "high") == (20.0, 50.0, 100.0)


@pytest.mark.parametrize(("best", "rounds"), [(0.01, 0), (0.2, 1), (2.0, 2), (5e-4, 1)])
def test_a_grid_grows_towards_an_optimum_beyond_its_edge(best, rounds):
    bowl = Bowl({0: (best, 1e-4)})
    table = tune(bowl, between(0.002, 0.05), (1e-5, 1e-4), extend=2)
    assert table["extension"].max() == rounds
    row = best_rows(table, "test")[0]
    assert (table["learning_rate"][row], table["weight_decay"][row]) == (best, 1e-4)
    assert len(set(bowl.trained)) == len(bowl.trained)  # nothing is trained twice


def test_a_grid_grows_no_more_often_than_it_may():
    table = tune(Bowl({0: (50.0, 1e-4)}), between(0.002, 0.05), (1e-4,), extend=1)
    assert table["learning_rate"].max() == 0.5


def test_both_axes_grow_for_the_seed_that_needs_it():
    bowl = Bowl({0: (0.01, 1e-4), 1: (0.2, 1e-2)}, seeds=(0, 1))
    table = tune(bowl, between(0.002, 0.1), (1e-5, 1e-4, 1e-3), extend=2)
    rows = best_rows(table, "test")
    assert table["learning_rate"][rows[0]] == 0.01
    assert (table["learning_rate"][rows[1]], table["weight_decay"][rows[1]]) == (0.2, 1e-2)
    assert len(set(bowl.trained)) == len(bowl.trained)


def test_no_decay_is_an_end_and_two_values_are_no_axis():
    assert (
        tune(Bowl({0: (0.01, 1e-9)}), (0.005, 0.01, 0.02), (0.0, 1e-4, 1e-3), extend=2)[
            "extension"
        ].max()
        == 0
    )
    assert (
        tune(Bowl({0: (5.0, 1.0)}), (0.005, 0.01), (1e-5, 1e-4), extend=2)["extension"].max() == 0
    )


def test_a_grid_of_diverged_lanes_grows_downwards():
    table = tune(Bowl({0: (0.01, 1e-4)}, diverges_from=0.02), (1.0, 2.0, 5.0), (1e-4,), extend=2)
    assert table["learning_rate"].min() == 0.01
    assert table["learning_rate"][best_rows(table, "test")[0]] == 0.01


@pytest.mark.parametrize("method", METHODS)
def test_the_grids_are_those_on_record(method):
    # LG-51: six rates at m = 128, where the recorded table was made.
    ranges = {"3layer": (1e-3, 5e-2), "3layer(last)": (0.5, 20), "2layer(last)": (0.2, 10)}
    low, high = ranges.get(method, (2e-3, 1e-1))
    assert grid_of("reduced", method, 128).rates == between(low, high)
    assert len(grid_of("reduced", method, 128).rates) == 6
    # LG-50: the natural scale, whatever the width.
    full = grid_of("full", method, 1000)
    scale = 1 if "last" in method else 1000
    low, high = (0.05, 5) if "last" in method else (0.2, 15) if "NTK" in method else (0.05, 8)
    assert low <= min(full.rates) * scale < 2.6 * low
    assert high / 2.6 < max(full.rates) * scale <= high
    assert full.decays[:2] == (0.0, 1e-7)
    assert len(full.decays) == 17
    assert full.extend == 2
