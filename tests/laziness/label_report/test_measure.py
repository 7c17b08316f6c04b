# SPDX-License-Identifier: Apache-2.0
import itertools
import json
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from unlazy.data import load
from unlazy.kernels import relu_gram
from unlazy.labels import complexity as label_complexity
from unlazy.labels import leave_one_out
from unlazy.laziness import measure, plot_report
from unlazy.laziness.label_report.far_labels import far_labels


def sample(n=120, d=8, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x, np.where(x[:, 0] > 0, "b", "a")


def prepared(x):
    """Standardised, with a constant coordinate as long as a typical row, of unit norm."""
    z = (x - x.mean(0)) / x.std(0)
    z = np.column_stack([z, np.full(len(z), np.sqrt(np.mean(np.sum(z**2, axis=1))))])
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def test_numbers_are_those_of_the_library():
    x, y = sample()
    report = measure(x, y)
    H = np.asarray(relu_gram(prepared(x)))
    labels = np.where(y == "a", 1.0, -1.0)
    labels -= labels.mean()
    assert report.label_complexity == pytest.approx(label_complexity(H, labels))
    assert report.label_complexity == report.strict_complexity
    assert report.classes == ("a", "b")
    assert report.energies.sum() == pytest.approx(1)
    assert report.is_exact


def test_the_random_level_is_the_mean_over_all_orders_of_the_labels():
    x, _ = sample(6, 3)
    y = np.array([0.0, 1.0, 5.0, 2.0, 2.0, 7.0])
    report = measure(x, y, task="regress")
    H = np.asarray(relu_gram(prepared(x)))
    centred = (y - y.mean()) / y.std()
    orders = np.array(list(itertools.permutations(centred)))
    energies = np.sum(orders * np.linalg.solve(H, orders.T).T, axis=1)
    assert report.random_level == pytest.approx(math.sqrt(2 * energies.mean() / 6), rel=1e-10)


def test_left_out_predictions_are_those_of_refits():
    x, _ = sample(40, 4)
    y = x[:, 0] ** 2 + x[:, 1]
    report = measure(x, y)
    H = np.asarray(relu_gram(prepared(x)))
    for row in (0, 7, 39):
        keep = np.arange(40) != row
        # Labels are centred by the mean of all rows, also where one is left out.
        alpha = np.linalg.solve(
            H[np.ix_(keep, keep)] + report.ridge * np.eye(39), y[keep] - y.mean()
        )
        assert report.predictions[row] == pytest.approx(H[row, keep] @ alpha + y.mean())


@pytest.mark.parametrize("y_of", [lambda x: x[:, 0] > 0, lambda x: x[:, 0] * x[:, 1]])
def test_nothing_changes_if_rows_are_repeated_columns_rescaled_or_labels_shifted(y_of):
    x, _ = sample(90, 5)
    y = y_of(x)
    ratio = measure(x, y).ratio
    assert measure(np.tile(x, (3, 1)), np.tile(y, 3)).ratio == pytest.approx(ratio, rel=1e-8)
    scaled = x * np.array([1.0, 1e3, -1e-3, 7.0, 2.0]) + 5
    assert measure(scaled, y).ratio == pytest.approx(ratio, rel=1e-8)
    if y.dtype != bool:
        assert measure(x, 100 - 3 * y).ratio == pytest.approx(ratio, rel=1e-8)


def test_rows_of_one_direction_are_told_apart_unless_the_numbers_are_taken_raw():
    x = np.array([[1.0, 2.0], [2.0, 4.0], [-1.0, 3.0], [4.0, 1.0], [0.5, -2.0]])
    y = np.array([0, 1, 0, 1, 1])
    report = measure(x, y)
    assert report.n == 5
    assert math.isfinite(report.strict_complexity)
    raw = measure(x, y, preprocess=False)
    assert raw.conflicts.tolist() == [[0, 1]]
    assert raw.strict_complexity == math.inf
    assert "as they are" in raw.preprocessing


def test_wrong_labels_are_suspects():
    x, _ = sample(300, 5)
    y = (x[:, 0] > 0).astype(int)
    wrong = [int(i) for i in np.argsort(-np.abs(x[:, 0])) if abs(x[i, 0]) > 1][:5]
    y[wrong] = 1 - y[wrong]
    report = measure(x, y)
    assert {suspect.row for suspect in report.suspects(5)} == set(wrong)
    assert len(set(report.costliest(10).tolist()) & set(wrong)) >= 4
    assert all(s.label != s.prediction for s in report.suspects())
    assert "rows look mislabelled" in str(report)


def test_wrong_numbers_are_suspects():
    x, _ = sample(200, 3)
    y = x[:, 0] + 0.05 * np.random.default_rng(1).standard_normal(200)
    y[[3, 150]] += 4
    report = measure(x, y)
    assert [s.row for s in report.suspects(2)] in ([3, 150], [150, 3])
    assert all(s.score > 4 for s in report.suspects())
    assert float(report.suspects()[0].label) - float(report.suspects()[0].prediction) > 2


@pytest.mark.parametrize("seed", [0, 1])
def test_flipped_digits_are_the_costliest_rows(seed):
    """A twentieth of the labels is wrong: at least .8 of the costliest twentieth is."""
    task = load("digits", classes=tuple(range(10)), n_train=1000, n_test=1, key=_key())
    x, truth = np.asarray(task.x_train, np.float64), np.asarray(task.y_train).argmax(axis=-1)
    rng = np.random.default_rng(seed)
    wrong = rng.permutation(1000)[:50]
    y = truth.copy()
    y[wrong] = (y[wrong] + rng.integers(1, 10, 50)) % 10
    report = measure(x, y)
    H = np.asarray(relu_gram(prepared(x[:, x.std(0) > 0])))
    labels = 2.0 * (y[:, None] == np.arange(10)) - 1
    raw = leave_one_out(H, labels - labels.mean(axis=0)).costs
    shares = [
        np.isin(rows, wrong).mean()
        for rows in (
            np.argsort(-raw)[:50],
            report.costliest(50),
            [suspect.row for suspect in report.suspects(50)],
        )
    ]
    assert min(shares) >= 0.8, shares


def _key():
    import jax

    return jax.random.key(0)


def test_duplicates_are_merged_and_conflicts_have_the_mean_label():
    x, y = sample()
    x2, y2 = np.concatenate([x, x[:2], 3 * x[2:3]]), np.concatenate([y, y[:1], ["a", "b"]])
    y2[1], y2[2] = "b", "a"
    report = measure(x2, y2)
    assert report.duplicates.tolist() == [[0, 120], [1, 121]]
    assert report.conflicts.tolist() == [[1, 121]]
    assert report.n == 121
    assert math.isfinite(report.label_complexity)
    assert report.to_dict()["strict_complexity"] == "inf"
    assert 0 < report.unexplained < 0.05
    assert "such as 1 and 121" in str(report)


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
    assert report.ratio == pytest.approx(1, abs=0.3)
    assert "look random" in str(report)


def test_rare_classes_are_not_easy_for_being_rare():
    """Random labels with one in twenty: uncentred, a constant would fit most of them."""
    x, _ = sample(300, 10)
    y = np.random.default_rng(3).permutation(np.arange(300) % 20 == 0)
    assert measure(x, y).ratio > 0.9


def test_frames_of_every_library_give_the_same_report():
    x, y = sample(60, 2)
    columns = {"a": x[:, 0], "b": x[:, 1], "kind": np.where(x[:, 1] > 0, "u", "v"), "y": y}
    frames = [pd.DataFrame(columns), pl.DataFrame(columns), pa.table(columns)]
    reports = [measure(frame, "y") for frame in frames]
    apart = measure(frames[0].drop(columns="y"), y)
    assert len({report.ratio for report in [*reports, apart]}) == 1
    assert [use.use for use in apart.columns] == ["number", "number", "levels"]
    assert measure(frames[0], "y", columns=["a"]).d == 1


def test_categories_of_pandas_and_missing_values_are_encoded():
    x, y = sample(60, 1)
    frame = pd.DataFrame({"a": x[:, 0], "c": pd.Categorical(["u", "v", None] * 20), "y": y})
    frame.loc[3, "a"] = np.nan
    frame.loc[5, "y"] = None
    report = measure(frame, "y")
    assert [(use.use, use.width) for use in report.columns] == [("number", 2), ("levels", 3)]
    assert report.rows_unlabelled == 1
    assert 5 not in report.rows
    assert "1 without a label left out" in str(report)


def test_the_figure_is_drawn_and_the_page_written(tmp_path):
    report = measure(*sample())
    assert len(plot_report(report).axes) == len(report.plot().axes) == 3
    report.to_html(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "Are these labels learnable?" in text
    assert "<svg" in text
    assert "src=" not in text  # nothing from another file


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.eye(3), np.ones(2), "`y` must have one label per row, 3 in all"),
        (np.eye(3), np.array(["a", "a", "a"]), "`y` must have two classes at least"),
        (np.full((3, 2), np.nan), np.arange(3), "`x` must have a column that says something"),
        (np.zeros((3, 2)), np.arange(3), "'column 0' is 0 in every row"),
        (np.full((3, 2), np.inf), np.arange(3), "`x` must be finite"),
        (np.ones((4, 2)) * [[1], [2], [1], [2]], np.arange(4), "three different rows at least"),
        (np.eye(3), np.full(3, np.nan), "`y` must have a label in some row, got none in 3 rows"),
        (np.eye(3), np.array([None, None, ""]), "`y` must have a label in some row"),
        (np.eye(3), np.array([1.0, 2.0, np.inf]), "`y` must be finite, got nan or inf in row 2"),
        (np.eye(3), np.array([1, "a", "b"], object), "labels of one kind .* got int, str"),
        (np.eye(3), np.array(["ab", "cd"] * 3).reshape(3, 2), r"shape \(3,\) for classes"),
        (np.eye(3), np.array([1j, 2, 3]), "`y` must be an array of real numbers, .*complex128"),
        (np.eye(3), np.ma.array([1, 2, 3], mask=[False, True, False]), "`y` must be a plain array"),
        (np.ma.array(np.eye(3)), np.arange(3), "`x` must be a plain array, got a masked array"),
        (np.eye(3).astype(str), np.arange(3), "`x` must be an array of real numbers"),
        (np.eye(3), np.array([1e200, 0.5, 2.0]), "`y` must be small enough to be squared"),
        (np.eye(3), "label", "`y` must be an array of labels where `x` is an array"),
        (pd.DataFrame({"a": [1.0]}), "b", "`y` must be one of the columns, got y='b'"),
        (np.eye(60), np.arange(60).astype(str), "fewer classes than rows, got 60 classes"),
    ],
)
def test_bad_input_is_named(x, y, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        measure(x, y)


def test_rows_without_a_label_are_left_out():
    x, y = sample()
    for none in (None, np.nan, ""):
        labels = y.astype(object)
        labels[[2, 50]] = none
        report = measure(x, labels)
        assert report.rows_unlabelled == 2
        assert report.classes == ("a", "b")
        assert report.n == 118
    dates = np.array(["2020-01-01", "NaT", "2021-01-01"] * 40, "M8[D]")
    assert measure(x, dates).rows_unlabelled == 40


@pytest.mark.parametrize("kind", [int, np.uint8, str, object])
def test_one_column_of_classes_is_taken_as_a_vector(kind):
    x, _ = sample()
    y = np.arange(120) % 3
    expected, found = measure(x, y.astype(kind)), measure(x, y.astype(kind)[:, None])
    assert found.classes == expected.classes == ("0", "1", "2")
    assert found.label_complexity == expected.label_complexity


def test_text_can_not_be_regressed_on():
    with pytest.raises(ValueError, match="`y` must be numbers for task='regress'"):
        measure(*sample(), task="regress")


def test_random_labels_of_few_rows_get_no_verdict_and_no_suspects():
    draw = np.random.default_rng(0)
    told = 0
    for _ in range(20):
        report = measure(draw.standard_normal((12, 3)), draw.permutation(np.repeat(["a", "b"], 6)))
        told += "learnable" in str(report).splitlines()[0]
        assert report.is_telling or not (report.suspects() or "mislabelled" in str(report))
    # Each is called learnable with probability 0.05 at most: more than 4 of 20 with 0.003.
    assert told <= 4


def test_the_chance_is_the_share_of_random_orders_that_cost_no_more():
    draw = np.random.default_rng(1)
    x = draw.standard_normal((60, 3))
    report = measure(x, np.where(x[:, 0] > 0, "yes", "no"))
    assert report.chance == 1 / 200  # none but the given order
    assert report.is_telling
    costs = [measure(x, draw.permutation(report.labels)).label_complexity for _ in range(20)]
    assert min(costs) > report.label_complexity


def test_the_edge_of_clean_numbers_is_not_suspect():
    draw = np.random.default_rng(2)
    x = draw.standard_normal((300, 3))
    y = x @ np.array([1.0, 2.0, 3.0])
    assert len(measure(x, y).suspects()) <= 3
    y[:10] += np.where(np.arange(10) % 2, 6.0, -6.0)  # 1.6 deviations
    found = [suspect.row for suspect in measure(x, y).suspects(10)]
    assert len(set(found) & set(range(10))) >= 9


def test_a_slip_in_one_number_is_named_before_all_else_and_hides_nothing():
    x = np.random.default_rng(0).standard_normal((300, 1))
    y = 2 * x[:, 0]
    y[5] += 100
    report = measure(x, y)
    deviations = (y - np.median(y)) ** 2
    share = f"{deviations[5] / deviations.sum():.1%}"
    first, second, *_ = str(report).splitlines()
    assert first.startswith(f"Row 5 alone carries {share} of the variance of the labels")
    assert first.endswith("look at it first.")
    assert second.startswith("- Correct it or leave it out")
    assert [suspect.row for suspect in report.suspects()] == [5]
    assert report.to_dict()["far_rows"] == [5]
    for contradiction in ("too few rows", "A kernel can learn them", "learnable"):
        assert contradiction not in str(report)
    y[[40, 41]] += 100
    assert set(measure(x, y).far.tolist()) == {5, 40, 41}


def test_heavy_tails_are_no_slips():
    draw = np.random.default_rng(0)
    # Each sample has a far row with probability 0.001 at most: more than 3 of 500 with 0.002.
    assert sum(len(far_labels(draw.lognormal(size=(300, 1))).rows) > 0 for _ in range(500)) <= 3
    assert sum(len(far_labels(draw.pareto(1, (300, 1))).rows) > 0 for _ in range(500)) <= 3
    x, prices = draw.standard_normal((300, 2)), draw.lognormal(size=300)
    assert not len(measure(x, prices).far)
    assert "alone" not in str(measure(x, prices))


@pytest.mark.parametrize("y", [np.r_[np.zeros(40), 9.0], np.r_[np.arange(10.0), 1e6]])
def test_no_number_is_far_where_most_are_equal_or_few(y):
    assert not len(far_labels(y[:, None]).rows)


def test_too_few_rows_get_no_recommendation_of_a_model():
    draw = np.random.default_rng(4)
    for _ in range(30):
        report = str(measure(draw.standard_normal((10, 2)), draw.standard_normal(10)))
        assert not ("too few rows" in report and "A kernel can learn" in report)


def test_an_accuracy_no_better_than_the_largest_class_is_said_to_be_so():
    draw = np.random.default_rng(3)
    x, y = draw.standard_normal((295, 4)), np.repeat(["yes", "no"], [11, 284])
    report = measure(x, y)
    recalls = [np.mean(report.predictions[y == c] == c) for c in ("yes", "no")]
    assert report.balanced_accuracy == pytest.approx(np.mean(recalls))
    assert report.accuracy <= report.majority == 284 / 295
    text = str(report)
    assert "no better than to name it always" in text
    assert f"{report.balanced_accuracy:.1%} as the mean over the classes" in text
    assert "A kernel can learn them" not in text
    assert "no better than" not in str(measure(x, np.where(x[:, 0] > 0, "yes", "no")))


def test_chance_is_printed():
    x, y = sample()
    report = measure(x, y)
    assert f"{report.chance:.1%} of random orders of the labels cost no more" in str(report)


def test_what_does_not_apply_is_null_in_json():
    x, _ = sample(40, 3)
    content = measure(x, x[:, 0]).to_dict()
    assert content["accuracy"] is content["majority"] is content["balanced_accuracy"] is None
    assert "nan" not in json.dumps(content)


def test_preprocessing_is_told_of_the_columns_that_there_are():
    frame = pd.DataFrame(sample(40, 2)[0], columns=["a", "b"])
    y = frame["a"] > 0
    plain = measure(frame, y).preprocessing
    assert plain.startswith("numbers are centred and scaled to unit variance; a constant")
    gaps = measure(frame.assign(b=frame["b"].where(frame["b"] < 1)), y).preprocessing
    assert "unit variance, missing ones are the median" in gaps
    text = measure(frame.assign(b=np.where(frame["b"] > 0, "u", "v")), y).preprocessing
    assert "unit variance; text becomes a column of 0 and 1 per value; a constant" in text
