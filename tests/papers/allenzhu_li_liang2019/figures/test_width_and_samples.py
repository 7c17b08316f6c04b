# SPDX-License-Identifier: Apache-2.0

import numpy as np
import pytest

from unlazy.experiments import CellResult, Store, run_experiment
from unlazy.papers.allenzhu_li_liang2019.figures import width_and_samples as figure
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.claims import (
    crossing,
    exponent,
)
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.run import samples


@pytest.fixture(scope="module")
def smoke(smoke_store):
    """The report of the smallest preset and its cells, computed once."""
    report = run_experiment(figure.EXPERIMENT, "smoke", out=smoke_store)
    config = figure.EXPERIMENT.preset("smoke").config
    return report, config, {c: Store(smoke_store).read(c) for c in figure.cells(config)}


def test_the_smoke_preset_gives_the_recorded_verdicts_and_a_figure(smoke):
    report, _, _ = smoke
    assert [claim.id for claim in report.claims if not claim.as_expected] == []
    assert len(report.claims) == 4
    assert all(path.stat().st_size > 1000 for path in report.figures)


def test_training_learns_at_every_size(smoke):
    _, _, results = smoke
    for result in results.values():
        assert np.all(result.table["train"] < float(result.arrays["zero"]))
        gaps = result.table["test"] - result.table["train"]
        assert gaps[0] > gaps[-1]


def test_samples_are_nested_unit_and_those_of_the_target():
    x, y = samples(40, seed=3, which=0)
    few, labels = samples(10, seed=3, which=0)
    np.testing.assert_array_equal(few, x[:10])
    np.testing.assert_array_equal(labels, y[:10])
    np.testing.assert_allclose(np.linalg.norm(x, axis=1), 1, rtol=1e-6)
    np.testing.assert_allclose(y, 2 * np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1]), rtol=1e-5)
    assert np.all(x[:, -1] == 0.5)
    assert np.abs(samples(40, seed=3, which=1)[0] - x).max() > 0.1


def test_a_crossing_lies_between_its_sizes_and_an_exponent_is_that_of_a_power():
    sizes = (10, 20, 40)
    assert crossing(sizes, np.array([0.4, 0.2, 0.0]), 0.3) == pytest.approx(np.sqrt(200))
    assert crossing(sizes, np.array([0.1, 0.2, 0.0]), 0.3) == 10
    assert crossing(sizes, np.array([0.4, 0.4, 0.4]), 0.3) == np.inf
    assert exponent((8, 16, 64), 3 * np.array([8, 16, 64]) ** 1.5) == pytest.approx(1.5)
    assert np.isnan(exponent((8, 16), np.array([5.0, np.inf])))


def test_claims_are_refuted_where_samples_grow_with_the_width(smoke):
    _, config, results = smoke

    def verdicts(change):
        changed = {c: CellResult(change(c, dict(r.table)), r.arrays) for c, r in results.items()}
        return {c.id.split("/")[1]: c.verdict for c in figure.claims(config, changed)}

    def wide_is_worse(cell, table):
        # Gaps of m^2/N for every variant: the samples to any level grow like m^2.
        return table | {"test": table["train"] + cell.config.width**2 / table["n"] / 20}

    assert set(verdicts(wide_is_worse).values()) == {"refuted", "holds"}
    assert verdicts(wide_is_worse)["second"] == verdicts(wide_is_worse)["gap"] == "refuted"

    def never(cell, table):
        del cell
        return table | {"test": table["train"] + 1}

    assert set(verdicts(never).values()) == {"refuted", "holds"}
    assert verdicts(never)["falls"] == verdicts(never)["first"] == "refuted"
