# SPDX-License-Identifier: Apache-2.0
import dataclasses
import math

import numpy as np
import pytest

from unlazy import data
from unlazy.papers.arora2019.figures import figure1
from unlazy.papers.arora2019.figures.figure1.claims import deviation
from unlazy.papers.arora2019.figures.figure1.config import (
    LABELS,
    UNIT_WORST,
    Config,
    Spectrum,
    Training,
)
from unlazy.papers.arora2019.figures.problems import DataSets, Network, Problem


def quiet(done, total):
    del done, total


def problem(n):
    return Problem("digits", n, data.fingerprint("digits"))


@pytest.fixture(scope="module")
def smoke():
    """The cells of the smallest preset, computed once."""
    config = figure1.EXPERIMENT.preset("smoke").config
    results = {
        cell: figure1.run(cell.config, seed=cell.seed, progress=quiet)
        for cell in figure1.cells(config)
    }
    return config, results


def result_of(results, config):
    return next(result for cell, result in results.items() if cell.config == config)


def test_projections_carry_the_whole_of_each_label_vector(smoke):
    config, results = smoke
    spectrum = result_of(results, Spectrum(problem(config.n)))
    for kind in LABELS:
        energy = np.sum(spectrum.table[f"projection_{kind}"] ** 2)
        assert energy == pytest.approx(config.n, rel=1e-6)  # every label set has norm sqrt(n)
    worst = spectrum.table["projection_worst"]
    assert abs(worst[-1]) == pytest.approx(math.sqrt(config.n))
    # M from the projections: the worst labels cost n / lambda_min.
    expected = math.sqrt(2 / spectrum.table["eigenvalue"][-1])
    assert spectrum.arrays["label_complexity"][2] == pytest.approx(expected, rel=1e-6)


def test_curves_start_at_the_labels_and_at_the_prediction(smoke):
    config, results = smoke
    for kind in LABELS:
        training = result_of(results, Training(problem(config.n), kind, config.network))
        table = training.table
        assert table["residual"][0] == pytest.approx(math.sqrt(config.n), rel=1e-4)
        assert table["predicted"][0] == pytest.approx(table["residual"][0], rel=1e-4)
        assert table["step"].tolist() == list(range(config.network.steps + 1))
        assert 0 < training.arrays["flips"] < 0.5
        assert training.arrays["movement"] > 0


def test_worst_labels_of_norm_one_are_the_worst_labels_scaled_down_and_stay_closer(smoke):
    # The linear prediction is homogeneous in the labels. The network is not: labels of a smaller
    # norm move it less, so that it follows the prediction more closely. Measured: a deviation of
    # 0.0131 of the label norm at norm sqrt(60) and 0.0062 at norm one; flips 0.69% and 0.10%.
    config, results = smoke
    scaled = result_of(results, Training(problem(config.n), "worst", config.network))
    unit = figure1.run(
        Training(problem(config.n), UNIT_WORST, config.network), seed=0, progress=quiet
    )
    assert unit.arrays["label_norm"] == pytest.approx(1.0, rel=1e-6)
    ratio = scaled.table["predicted"] / unit.table["predicted"]
    np.testing.assert_allclose(ratio, math.sqrt(config.n), rtol=1e-3)
    assert deviation(unit) < 0.75 * deviation(scaled)
    assert unit.arrays["flips"] < scaled.arrays["flips"] / 3


def test_the_preset_of_norm_one_shares_all_other_cells_with_that_of_the_paper():
    def trained(preset):
        config = figure1.EXPERIMENT.preset(preset).config
        config = dataclasses.replace(config, datasets=DataSets(("digits",)))
        return set(figure1.cells(config))

    paper, unit = trained("paper"), trained("norm-one")
    assert {cell.config.labels for cell in unit - paper} == {UNIT_WORST}
    assert {cell.config.labels for cell in paper - unit} == {"worst"}
    assert len(paper & unit) == 3  # the spectrum, true and random labels


@pytest.mark.slow
def test_a_wider_network_follows_the_prediction_more_closely():
    # AR-48: the deviation falls at least like m^(-1/2); a factor 64 in width must gain a factor 3.
    def deviation_at(width):
        network = Network(width, "antisymmetric", 1.0, None, 60)
        training = Training(problem(40), "true", network)
        return deviation(figure1.run(training, seed=0, progress=quiet))

    assert deviation_at(8192) < deviation_at(128) / 3


def test_the_quick_preset_falls_back_to_digits_and_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("UNLAZY_DATA", str(tmp_path))
    monkeypatch.setenv("UNLAZY_CACHE", str(tmp_path))
    config = figure1.EXPERIMENT.preset("quick").config
    assert {cell.config.problem.dataset for cell in figure1.cells(config)} == {"digits"}
    (note,) = figure1.EXPERIMENT.notes(config)
    assert "mnist and cifar10 not found on this machine: using digits" in note


def test_both_data_sets_are_used_where_they_are(real_data):
    config = figure1.EXPERIMENT.preset("quick").config
    assert [one.dataset for one in config.problems()] == ["mnist", "cifar10"]
    assert figure1.EXPERIMENT.notes(config) == []
    assert len(figure1.cells(config)) == 8


def test_the_claims_can_fail(smoke):
    config, results = smoke
    spectrum = Spectrum(problem(config.n))
    broken = dict(results)
    for cell, result in results.items():
        if cell.config == spectrum:
            table = result.table | {"projection_true": result.table["projection_worst"]}
            broken[cell] = type(result)(table, result.arrays)
        elif cell.config.labels == "true":
            table = result.table | {"residual": result.table["residual"][::-1].copy()}
            broken[cell] = type(result)(table, result.arrays)
    verdicts = {claim.id: claim.verdict for claim in figure1.claims(config, broken)}
    assert verdicts["AR-80/top"] == verdicts["AR-80/order"] == "refuted"
    assert verdicts["AR-9/digits"] == "refuted"


def test_the_paper_preset_has_the_sizes_of_the_paper():
    config = figure1.EXPERIMENT.preset("paper").config
    assert isinstance(config, Config)
    assert (config.n, config.network.width, config.network.steps) == (10_000, 10_000, 5000)
    assert (config.network.init_scale, config.network.learning_rate) == (1e-2, 1e-3)
    assert config.datasets.names == ("mnist", "cifar10")
