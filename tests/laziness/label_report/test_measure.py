# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.kernels import relu_gram
from unlazy.labels import complexity as label_complexity
from unlazy.labels import energy as label_energy
from unlazy.laziness import measure, plot_report


def sample(n=120, d=8, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x, np.where(x[:, 0] > 0, "b", "a")


def test_numbers_are_those_of_the_library():
    x, y = sample()
    report = measure(x, y)
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    H, labels = np.asarray(relu_gram(unit)), np.where(y == "a", 1.0, -1.0)
    assert report.label_complexity == pytest.approx(label_complexity(H, labels))
    level = math.sqrt(2 * np.trace(np.linalg.inv(H)) / 120)
    assert report.random_level == pytest.approx(level, rel=1e-8)
    assert report.classes == ("a", "b")
    assert report.energies.sum() == pytest.approx(1)
    assert report.costs[7] == pytest.approx(_saved_without(H, labels, 7), rel=1e-6)


def _saved_without(H, y, row):
    keep = np.arange(len(y)) != row
    rest = label_energy(H[np.ix_(keep, keep)], y[keep])
    return label_energy(H, y) - rest


def test_wrong_labels_are_the_costliest():
    x, _ = sample(300, 5)
    y = (x[:, 0] > 0).astype(int)
    wrong = [i for i in np.argsort(-np.abs(x[:, 0])) if abs(x[i, 0]) > 1][:5]
    y[wrong] = 1 - y[wrong]
    found = set(measure(x, y).costliest(20).tolist())
    assert len(found & set(map(int, wrong))) >= 4


def test_duplicates_and_conflicts_are_found_in_rows_of_the_data_given():
    x, y = sample()
    x2, y2 = np.concatenate([x, x[:2], 3 * x[2:3]]), np.concatenate([y, y[:1], ["a", "b"]])
    y2[1], y2[2] = "b", "b"
    report = measure(x2, y2)
    assert report.duplicates.tolist() == [[0, 120], [1, 121], [2, 122]]
    assert report.conflicts.tolist() == [[1, 121]]
    assert report.label_complexity == math.inf
    assert report.to_dict()["label_complexity"] == "inf"
    assert set(report.costliest(2).tolist()) == {1, 121}


def test_more_classes_numbers_and_columns_are_told_apart():
    x, _ = sample()
    rng = np.random.default_rng(1)
    assert measure(x, rng.integers(0, 4, 120)).classes == ("0", "1", "2", "3")
    assert measure(x, rng.integers(0, 1000, 120)).task == "regress"
    assert measure(x, rng.standard_normal(120)).task == "regress"
    assert measure(x, rng.choice([-1.0, 1.0], 120)).task == "classify"
    assert measure(x, rng.standard_normal((120, 2))).task == "regress"
    assert measure(x, rng.integers(0, 4, 120), task="regress").classes == ()


def test_a_subset_is_used_and_named():
    x, y = sample(200)
    report = measure(x, y, most_rows=50)
    assert report.n == len(report.rows) == 50
    assert set(report.costliest(5)) <= set(report.rows)


def test_random_labels_are_near_the_random_level():
    # M of random signs has mean tr(H^-1) and here a relative spread of about 10%: 5 of them.
    x, _ = sample(400, 20)
    y = np.random.default_rng(3).choice(["u", "v"], 400)
    report = measure(x, y)
    assert report.label_complexity == pytest.approx(report.random_level, rel=0.3)


def test_the_figure_is_drawn():
    fig = plot_report(measure(*sample()))
    assert [len(ax.lines) for ax in fig.axes] == [2, 1]


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.ones((3, 2)), np.ones(2), "`y` must have one label a row, 3 in all"),
        (np.ones((3, 2)), np.array(["a", "a", "a"]), "`y` must have two classes at least"),
        (np.full((3, 2), np.nan), np.arange(3), "`x` must be finite"),
        (np.zeros((3, 2)), np.arange(3), "`x` must have no row of zeros"),
        (np.eye(3), np.array([0.1, np.nan, 0.3]), "`y` must be finite"),
        (np.eye(3), np.array([1.0, np.nan, 1.0]), "`y` must be finite, got nan or inf in row 1"),
        (np.eye(3), np.array([1.0, 2.0, np.inf]), "`y` must be finite, got nan or inf in row 2"),
        (np.eye(3), np.array(["a", None, "b"]), "a label in every row, got none in row 1"),
        (np.eye(3), np.array([1, 2.0, np.nan], object), "every row, got none in row 2"),
        (np.eye(3), np.array(["2020-01-01", "NaT", "NaT"], "M8[D]"), "got none in rows 1 and 2"),
        (np.eye(3), np.array([1, "a", "b"], object), "labels of one kind .* got int, str"),
        (np.eye(3), np.array(["ab", "cd"] * 3).reshape(3, 2), r"shape \(3,\) for classes"),
        (np.eye(3), np.array([1j, 2, 3]), "`y` must be an array of real numbers, .*complex128"),
        (np.eye(3), np.array([1, 2, 3], ">i4"), "`y` must be of a dtype that JAX has, .*>i4"),
        (np.eye(3), np.ma.array([1, 2, 3], mask=[False, True, False]), "`y` must be a plain array"),
        (np.ma.array(np.eye(3)), np.arange(3), "`x` must be a plain array, got a masked array"),
        (np.eye(3).astype(str), np.arange(3), "`x` must be an array of real numbers"),
    ],
)
def test_bad_input_is_named(x, y, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        measure(x, y)


@pytest.mark.parametrize("kind", [int, np.uint8, str, object])
def test_one_column_of_classes_is_taken_as_a_vector(kind):
    x, _ = sample()
    y = np.arange(120) % 3
    expected, found = measure(x, y.astype(kind)), measure(x, y.astype(kind)[:, None])
    assert found.classes == expected.classes == ("0", "1", "2")
    assert found.label_complexity == expected.label_complexity


def test_a_bad_label_is_named_by_its_row_in_the_data_given():
    x, _ = sample(200)
    y = np.where(np.arange(200) == 150, np.nan, x[:, 0])
    with pytest.raises(ValueError, match="nan or inf in row 150"):
        measure(x, y, most_rows=10)


def test_text_can_not_be_regressed_on():
    with pytest.raises(ValueError, match="`y` must be numbers for task='regress'"):
        measure(*sample(), task="regress")
