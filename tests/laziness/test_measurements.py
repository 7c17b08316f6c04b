# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.laziness.measurements.feature_quality import feature_distance
from unlazy.laziness.measurements.kernel_drift import alignment, distance
from unlazy.laziness.measurements.movement import _spectral_norm
from unlazy.laziness.measurements.sections import in_words, table_lines
from unlazy.laziness.measurements.targets import as_targets
from unlazy.laziness.measurements.taylor_shares import taylor_shares


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_spectral_norm_is_the_largest_singular_value(rng):
    for shape in ((5, 9), (9, 5), (1, 4), (40, 30)):
        M = rng.standard_normal(shape)
        assert _spectral_norm(M) == pytest.approx(np.linalg.norm(M, 2), rel=2e-3)
    assert _spectral_norm(np.zeros((3, 2))) == 0.0


def test_distances_see_what_they_should(rng):
    A = rng.standard_normal((6, 8))
    K = A @ A.T
    same = distance(K, 3 * K)
    assert same.turned == pytest.approx(0.0, abs=1e-12)
    assert same.relative == pytest.approx(2.0)
    shifted = distance(K, K + 100.0)  # a constant feature is all that came
    assert shifted.centred == pytest.approx(0.0, abs=1e-9)
    assert shifted.turned > 0.1


def test_alignment_is_one_for_the_kernel_of_the_labels(rng):
    Y = rng.standard_normal((7, 2))
    assert alignment(Y @ Y.T + 5.0, Y) == pytest.approx(1.0)
    assert math.isnan(alignment(np.ones((7, 7)), Y))


def test_features_that_are_the_function_have_no_distance_from_it(rng):
    F = rng.standard_normal((30, 2))
    Q, _ = np.linalg.qr(F - F.mean(axis=0))
    assert feature_distance(Q + 3.0, F) == pytest.approx(0.0, abs=1e-9)
    assert feature_distance(rng.standard_normal((30, 400)), F) > 0.5
    assert math.isnan(feature_distance(F, np.ones((30, 1))))


def test_a_polynomial_is_carried_by_its_own_orders():
    x = np.linspace(-1, 1, 9)[:, None]
    terms = np.stack([x, 2 * x, x**2])
    shares = taylor_shares(terms, terms.sum(axis=0))
    assert shares.errors[2] == pytest.approx(0.0, abs=1e-12)
    # x and x^2 are orthogonal on a symmetric grid, so that each share is its own square.
    total = np.sum(4 * x**2) + np.sum(x**4)
    assert shares.shares == pytest.approx((np.sum(4 * x**2) / total, np.sum(x**4) / total))


@pytest.mark.parametrize(
    ("y", "outputs", "classes"),
    [
        (np.array([0, 2, 1, 2]), 3, [0, 2, 1, 2]),
        (np.eye(3)[[0, 2, 1]], 3, [0, 2, 1]),
        (np.array([-1.0, 1.0, 1.0]), 1, [0, 1, 1]),
        (np.array(["cat", "dog", "cat"]), 1, [0, 1, 0]),
        (np.array(["cat", "dog", "ant"]), 3, [1, 2, 0]),
        (np.array([[3], [1]]), 4, [3, 1]),
        ([True, False], 1, [1, 0]),
    ],
)
def test_labels_of_every_kind_become_classes(y, outputs, classes):
    targets = as_targets(y, len(y), outputs)
    np.testing.assert_array_equal(targets.classes, classes)
    right = 2.0 * targets.columns - 1 if outputs > 1 else targets.columns
    assert targets.accuracy(right) == 1.0
    assert targets.accuracy(-right) == 0.0


def test_losses_are_the_textbook_ones(rng):
    out, y = rng.standard_normal((5, 3)), np.array([0, 1, 2, 1, 0])
    p = np.exp(out) / np.exp(out).sum(axis=1, keepdims=True)
    expected = -np.mean(np.log(p[np.arange(5), y]))
    assert as_targets(y, 5, 3).loss(out) == pytest.approx(expected)
    half = np.mean(np.sum((out - np.eye(3)[y]) ** 2, axis=1)) / 2
    assert as_targets(y, 5, 3, loss="squared").loss(out) == pytest.approx(half)
    signs, one = np.array([1.0, -1.0, 1.0]), rng.standard_normal((3, 1))
    expected = np.mean(np.log1p(np.exp(-signs * one[:, 0])))
    assert as_targets(signs, 3, 1).loss(one) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("y", "outputs", "message"),
    [
        ([0, 5], 3, "0 to 2, got 0 to 5"),
        (
            ["a", "b", "c", "d"],
            3,
            "3 classes where .* for a model with 3 outputs, got 4: a, b, c, d. Sor",
        ),
        (list("ab") * 10, 10, "10 classes where .* got 2: a, b. .* the number of the output"),
        ([True, False], 3, "3 classes where .* got 2: False, True"),
        (["a", "a"], 1, "2 classes where .* with 1 output, got 1: a"),
        ([0.5, 1.5, 2.5], 3, r"quantities like the outputs of `f`, \(3, 3\)"),
        ([1.0, None], 1, "label in every row"),
    ],
)
def test_labels_that_do_not_fit_are_refused(y, outputs, message):
    with pytest.raises(ValueError, match=message):
        as_targets(y, len(y), outputs)


def test_text_of_the_test_data_names_the_classes_of_the_training_data():
    y = as_targets(["ant", "cat", "dog"], 3, 3)
    found = as_targets(["dog", "cat"], 2, 3, "test", names=y.names)
    np.testing.assert_array_equal(found.classes, [2, 1])
    with pytest.raises(ValueError, match="`test` must have classes that `y` has, got emu too"):
        as_targets(["dog", "emu"], 2, 3, "test", names=y.names)


def test_tables_line_up():
    lines = table_lines(("layer", "share"), [("conv", 0.25), ("all", 1234567)])
    assert lines == ["layer      share", "conv        0.25", "all    1,234,567"]
    assert in_words(None) == "-"
