# SPDX-License-Identifier: Apache-2.0
"""The plan for internet scale: page and script agree, and the simulation has its closed forms."""

import dataclasses
import importlib
import math
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plan():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield importlib.import_module("benchmarks.scale_plan")


@pytest.fixture(scope="module")
def schedules(plan):
    return importlib.import_module("benchmarks.schedules")


def test_the_page_shows_the_tables_of_the_script(plan):
    # If not: python -m benchmarks.scale_plan --write
    page = plan.PAGE.read_text()
    assert page.count("<!-- end -->") == 6
    assert plan.written(page, plan.tables(plan.Costs())) == page


@pytest.mark.parametrize(("cells", "workers"), [(1, 1), (12, 4), (13, 4), (3, 10)])
def test_equal_cells_without_failures_run_in_full_rounds(schedules, cells, workers):
    run = schedules.simulate([2.5] * cells, workers)
    assert run == (math.ceil(cells / workers) * 2.5, 0, 0.0)


def test_a_slow_scheduler_is_the_limit(schedules):
    run = schedules.simulate([1.0] * 100, 1000, gap=0.5)
    assert run.end == 100 * 0.5 + 1


def test_failures_cost_what_the_closed_form_says(schedules):
    """One worker: its whole time is useful or lost, and the mean is that of the formula.

    The failures of a cell have variance e(e - 1) with e = exp(1/2), and cost at most 1.5 each: the
    standard deviations of the sums over 2000 cells are 46 and, at most, 70. Six of them are passed
    with probability below 1e-8.
    """
    times = np.ones(2000)
    run = schedules.simulate(times, 1, mtbf=2.0, repair=0.5, lease=0.25)
    assert run.end == pytest.approx(times.sum() + run.lost)
    assert abs(run.failures - schedules.expected_failures(times, 2.0)) < 6 * 46
    assert abs(run.end - schedules.expected_seconds(times, 2.0, 0.5)) < 6 * 70
    assert schedules.expected_failures(times, 2.0) == pytest.approx(2000 * (math.exp(0.5) - 1))


def test_rare_failures_cost_half_a_cell_and_a_repair_each(schedules):
    """The expansion of the closed form: N t/M failures, each of t/2 + R, up to a factor 1 + t/M."""
    times, M, R = np.full(100, 3.0), 1e5, 7.0
    lost = schedules.expected_seconds(times, M, R) - times.sum()
    assert lost == pytest.approx(times.sum() / M * (1.5 + R), rel=2 * 3 / M)


def test_a_lost_cell_waits_for_its_lease_when_all_else_is_done(schedules):
    run = schedules.simulate([1.0], 2, mtbf=0.5, repair=0.5, lease=4.0)
    assert run.failures > 0
    assert run.end == pytest.approx(1 + run.lost + run.failures * (4 - 0.5))


def test_a_worker_in_repair_is_missed(schedules):
    """Rare failures on 50 workers make the grid longer by what they lose, and a round or so."""
    run = schedules.simulate([1.0] * 5000, 50, mtbf=20.0, repair=2.0, lease=1.0)
    assert 5000 + run.lost <= 50 * run.end <= 5000 + run.lost + 50 * 6


def test_cells_have_the_mean_and_the_spread_asked_for(schedules):
    """Each within 6 standard errors of 40000 draws, below 1e-7 by chance for the mean."""
    times = schedules.cell_times(40_000, 60.0, 0.5)
    assert abs(times.mean() / 60 - 1) < 6 * 0.5 / 200
    assert times.std() / 60 == pytest.approx(0.5, abs=0.05)
    assert set(schedules.cell_times(100, 1.0, 1.0, np.array([2.0, 3.0]))) == {2.0, 3.0}


def test_costs_of_a_product_follow_from_the_limits(plan):
    costs, p = plan.Costs(tile_seconds=0), plan.Problem(n=1e6)
    pairs = sum(1 for i in range(123) for j in range(i, 123))  # ceil(10^6 / 8192) = 123
    assert plan.tiles_per_gpu(p, 1) == pairs
    tile = 2 * 8192**2 * 3136 / 790e12 + 8 * 4 * 8192**2 / 4.8e12
    assert plan.solve(p, 1, costs).tiles == pytest.approx(pairs * tile)
    assert plan.all_reduce(1e9, 1, costs) == 0
    assert plan.all_reduce(1e9, 8, costs) == pytest.approx(2 * 7 / 8 * 1e9 / 450e9 + 14 * 20e-6)
    measured = dataclasses.replace(costs, tile_seconds=0.01)
    assert plan.solve(p, 1, measured).tiles == pytest.approx(pairs * 0.01)


def test_the_plan_has_what_was_measured_at_a_million_samples(plan):
    """On one H200: 25.7 GB at most, 11.5 s an iteration, 56 s of set-up with its compilation."""
    costs, p = plan.Costs(), plan.Problem(n=1e6)
    assert sum(plan.memory(p, costs).values()) == pytest.approx(25.7e9, rel=0.02)
    found = plan.solve(p, 1, costs)
    assert found.tiles + found.preconditioner == pytest.approx(11.5, rel=0.05)
    assert 10 < found.setup < 56


def test_devices_share_the_preconditioner_but_for_its_factor(plan):
    costs, p = dataclasses.replace(plan.Costs(), latency=0.0), plan.Problem()
    one, many = (plan.solve(p, gpus, costs) for gpus in (1, 512))
    m = plan.landmarks(p, costs)
    whole = 8 * m**2 / costs.memory_rate, 2 * m**3 / 3 / costs.flops64
    assert one.preconditioner - whole[0] > 100 * (many.preconditioner - whole[0]) > 0
    assert one.setup - whole[1] > 100 * (many.setup - whole[1]) > 0


def test_what_gives_way_first_just_fits(plan):
    costs = plan.Costs()
    n = min(n for name, n in plan.limits(plan.Problem(), 512, costs).items() if "one GPU" in name)
    held = sum(plan.memory(plan.Problem(n=n), costs).values())
    assert held == pytest.approx(costs.memory, rel=1e-5)
