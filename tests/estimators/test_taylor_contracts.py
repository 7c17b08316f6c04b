# SPDX-License-Identifier: Apache-2.0
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import unlazy as ul
from unlazy.estimators import TaylorClassifier, TaylorRegressor

CHECKED = [
    TaylorRegressor(width=8),
    TaylorRegressor(0, width=32),
    TaylorRegressor(1, width=8),
    TaylorClassifier(width=8),
    TaylorClassifier(1, width=8),
    TaylorClassifier(width=8, loss="log_loss", randomize_signs=True),
]


@parametrize_with_checks(CHECKED)
@pytest.mark.filterwarnings("ignore")  # checks warn on purpose, and of steps that are too few
def test_scikit_learn_accepts_the_estimators(estimator, check):
    check(estimator)


def cloned(model) -> Any:  # scikit-learn's type is that of anything it clones
    return clone(model)


def sample(n=60):
    X = np.random.RandomState(0).standard_normal((n, 3))
    return X, np.where(X[:, 0] * X[:, 1] > 0, "same", "other")


@pytest.mark.parametrize("loss", ["squared_error", "log_loss"])
def test_a_fitted_model_survives_pickling(loss):
    X, y = sample()
    model = TaylorClassifier(width=8, loss=loss, random_state=0).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(X), model.decision_function(X))
    assert set(vars(again)) == set(vars(model))
    assert cloned(model).get_params() == model.get_params()


def test_an_activation_object_is_cloned_and_pickled():
    X, y = sample()
    model = TaylorClassifier(
        width=8, activation=ul.activation("sigmoid", shift=1.5), random_state=0
    )
    found = pickle.loads(pickle.dumps(cloned(model).fit(X, y)))
    np.testing.assert_array_equal(found.predict(X), model.fit(X, y).predict(X))


def test_grid_search_in_a_pipeline_finds_the_order():
    X, y = sample(120)
    pipeline = make_pipeline(StandardScaler(), TaylorClassifier(width=16, random_state=0))
    grid = {"taylorclassifier__order": [0, 2]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, y)
    assert search.best_params_ == {"taylorclassifier__order": 2}
    assert search.best_score_ > 0.8


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_the_names_of_their_columns(frame):
    X, y = sample()
    table = frame({name: X[:, k] for k, name in enumerate("abc")})
    model = TaylorRegressor(1, width=8, random_state=0).fit(table, X[:, 0])
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(
        model.predict(table), cloned(model).fit(X, X[:, 0]).predict(X), atol=1e-12
    )
    labels = pd.Series(y) if frame is pd.DataFrame else pl.Series(y)
    classifier = TaylorClassifier(1, width=8, random_state=0).fit(table, labels)
    assert set(classifier.predict(table)) <= {"same", "other"}
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(
            table.rename({"a": "z"}) if frame is pl.DataFrame else table.rename(columns={"a": "z"})
        )


def test_several_classes_have_an_output_each_and_two_share_one():
    X, y = sample()
    three = np.where(X[:, 2] > 0.5, "third", y)
    model = TaylorClassifier(width=16, loss="log_loss", ridge=0.01, max_iter=1000, random_state=0)
    assert model.fit(X, y).decision_function(X).shape == (60,)
    assert list(model.classes_) == ["other", "same"]
    of_two = model.predict_proba(X)
    np.testing.assert_array_equal(of_two[:, 1] > 0.5, model.predict(X) == "same")
    assert model.fit(X, three).decision_function(X).shape == (60, 3)
    of_three = model.predict_proba(X)
    np.testing.assert_allclose(np.sum(of_three, axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(model.classes_[of_three.argmax(axis=1)], model.predict(X))
    assert model.score(X, three) > 0.9


def test_probabilities_of_a_log_loss_are_calibrated_on_the_training_samples():
    # At a minimum in a model with a constant, residuals add up to zero but for the ridge.
    X, y = sample(200)
    model = TaylorClassifier(width=16, loss="log_loss", random_state=0).fit(X, y)
    share = np.mean(y == "same")
    assert np.mean(model.predict_proba(X)[:, 1]) == pytest.approx(share, abs=0.02)


def test_the_squared_error_has_no_probabilities():
    X, y = sample()
    model = TaylorClassifier(1, width=8).fit(X, y)
    assert not hasattr(model, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        model.predict_proba(X)


def test_sparse_input_is_refused():
    X, y = sample()
    with pytest.raises(TypeError, match="dense data is required"):
        TaylorClassifier(1, width=8).fit(sparse.csr_array(X), y)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"order": -1}, "`order` must be"),
        ({"order": 1, "randomize_signs": True}, "`order` must be at least 2 with randomize_signs"),
        ({"order": 0, "good_directions": True}, "`order` must be at least 2 with good_directions"),
        ({"randomize_signs": True, "good_directions": True}, "`good_directions` must be False"),
        ({"good_directions": True, "rank": 60}, "`rank` must be below the number of samples, 60"),
        ({"activation": "relu"}, "`activation` must have derivatives to the order 2, got .*relu"),
        ({"activation": "nothing"}, "`activation` must be"),
        ({"width": 7}, "`width` must be even"),
        ({"ridge": 0.0}, "`ridge` must be"),
        ({"bias": -1.0}, "`bias` must be at least 0, got bias=-1.0"),
        ({"max_iter": 0}, "`max_iter` must be"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_named(options, text):
    X, _ = sample()
    with pytest.raises(ValueError, match=text):
        TaylorRegressor(**options).fit(X, X[:, 0])


def test_an_unknown_loss_is_named():
    with pytest.raises(ValueError, match="`loss` must be"):
        TaylorClassifier(loss="hinge").fit(*sample())  # pyright: ignore[reportArgumentType]  # on purpose


def test_too_few_steps_are_reported():
    X, y = sample()
    with pytest.warns(ConvergenceWarning, match="Raise `max_iter`"):
        TaylorClassifier(width=8, max_iter=2, random_state=0).fit(X, y)


def test_zero_rows_and_constant_columns_and_targets_are_fitted():
    X = np.array([[0.0, 3.0, 0.0], [1.0, 3.0, 0.0], [0.0, 3.0, 0.0], [-1.0, 3.0, 0.0]])
    for order in (0, 1, 2):
        model = TaylorRegressor(order, width=4, random_state=0)
        assert np.all(np.isfinite(model.fit(X, X[:, 0]).predict(X)))
        np.testing.assert_allclose(model.fit(X, np.full(4, 7.0)).predict(X), 7.0, atol=1e-3)
        np.testing.assert_allclose(model.fit(np.zeros((2, 3)), [1.0, 3.0]).predict(X), 2.0, atol=1)
