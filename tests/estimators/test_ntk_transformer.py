# SPDX-License-Identifier: Apache-2.0
import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.linear_model import RidgeClassifierCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import unlazy as ul
from unlazy.estimators import NTKTransformer

CHECKED = [NTKTransformer(n_components=16), NTKTransformer("nngp", 5, depth=2, bias_variance=0.0)]


@parametrize_with_checks(CHECKED)
@pytest.mark.filterwarnings("ignore")  # checks warn on purpose
def test_scikit_learn_accepts_the_transformer(estimator, check):
    check(estimator)


def inputs(n=5, d=3, seed=0):
    return np.random.RandomState(seed).standard_normal((n, d))


def errors(kernel, k, depth, count, **options):
    """The relative errors of all entries, for `count` seeds, and the bound of a deviation."""
    X = inputs()
    K = np.asarray(getattr(ul.kernels, kernel)(X, depth=depth, **options))
    scale = np.sqrt(np.outer(K.diagonal(), K.diagonal()))
    found = []
    for seed in range(count):
        model = NTKTransformer(kernel, k, depth=depth, random_state=seed, **options)
        Z = model.fit_transform(X)
        found.append((Z @ Z.T - K) / scale)
    return np.array(found)


@pytest.mark.parametrize("k", [1, 32])
@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
@pytest.mark.parametrize(
    "options", [{"bias_variance": 0.5}, {"bias_variance": 0.0, "activation": "erf"}], ids=str
)
def test_inner_products_are_the_kernel_on_average(kernel, options, k):
    # 120 entries of near-Gaussian means of 200, each within 5 standard errors: fails once in 1e4.
    found = errors(kernel, k, 1, 200, **options)
    standard_errors = found.std(axis=0) / np.sqrt(len(found))
    assert np.all(np.abs(found.mean(axis=0)) < 5 * standard_errors)


@pytest.mark.parametrize("kernel", ["ntk", "nngp"])
def test_the_deviation_of_relu_features_is_within_its_bound(kernel):
    # The bound is not tight, off by 1.1 at least: 200 draws exceed it with probability below 1e-3.
    found = errors(kernel, 64, 1, 200, bias_variance=0.0)
    assert found.std(axis=0).max() < np.sqrt(6 / 64)
    assert found.std(axis=0).max() > np.sqrt(2 / 64)


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_error_falls_like_the_root_of_the_components(depth):
    few, many = (
        np.sqrt(np.mean(errors("ntk", k, depth, 40, bias_variance=0.5) ** 2)) for k in (64, 1024)
    )
    # 4 in the limit; the root mean squares of 40 draws are known to a fifth or so.
    assert 2.5 < few / many < 6.5


def test_a_deep_kernel_is_approximated():
    # An entry deviates by at most 0.16, its mean over 16 seeds by 0.04; fails less than once in
    # 1000. A layer that is missing is off by a quarter at least.
    found = errors("ntk", 1024, 3, 16, bias_variance=0.5)
    assert np.abs(found.mean(axis=0)).max() < 0.2


def digits():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    X, y = (np.asarray(X) - 8) / 6, np.asarray(y)
    return X[:500], y[:500], X[500:1000], y[500:1000]


def test_a_linear_model_on_the_features_is_near_kernel_ridge():
    X, y, X_test, y_test = digits()
    pipeline = make_pipeline(
        NTKTransformer(n_components=2000, random_state=0), RidgeClassifierCV(np.logspace(-2, 2, 5))
    )
    accuracy = pipeline.fit(X, y).score(X_test, y_test)
    K, K_test = (np.asarray(ul.kernels.ntk(a, X, bias_variance=1.0)) for a in (X, X_test))
    signs = 2.0 * (y[:, None] == np.arange(10)) - 1
    scores = K_test @ np.linalg.solve(K + 0.1 * np.eye(len(X)), signs)
    of_kernel = np.mean(scores.argmax(axis=1) == y_test)
    assert accuracy > of_kernel - 0.02


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_go_in_and_come_out(frame):
    X = inputs()
    table = frame({name: X[:, k] for k, name in enumerate("abc")})
    model = NTKTransformer(n_components=6, random_state=0)
    expected = model.fit_transform(X)
    name = "pandas" if frame is pd.DataFrame else "polars"
    again: Any = clone(model)
    found = again.set_output(transform=name).fit_transform(table)
    assert isinstance(found, frame)
    assert list(found.columns) == [f"ntktransformer{k}" for k in range(6)]
    np.testing.assert_array_equal(found.to_numpy(), expected)


def test_single_precision_is_kept_and_rows_do_not_depend_on_each_other():
    X = inputs(700)
    model = NTKTransformer(n_components=8, random_state=0).fit(X)
    single = model.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, model.transform(X), atol=1e-5)
    parts = [model.transform(X[:600]), model.transform(X[600:])]
    np.testing.assert_allclose(np.concatenate(parts), model.transform(X), atol=1e-12)


def test_the_transformer_survives_pickling_and_grid_search():
    X, y, *_ = digits()
    model = NTKTransformer(n_components=50, random_state=0)
    again = pickle.loads(pickle.dumps(model.fit(X)))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    pipeline = make_pipeline(model, RidgeClassifierCV())
    grid = {"ntktransformer__n_components": [5, 200]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X[:200], y[:200])
    assert search.best_params_ == {"ntktransformer__n_components": 200}


def test_rows_of_zeros_have_features():
    Z = NTKTransformer(n_components=9, bias_variance=0.0, random_state=0).fit_transform(
        np.zeros((2, 3))
    )
    np.testing.assert_array_equal(Z, 0)


def test_sparse_input_is_refused():
    with pytest.raises(TypeError, match="dense data is required"):
        NTKTransformer(n_components=8).fit(sparse.csr_array(inputs()))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"kernel": "rbf"}, "`kernel` must be"),
        ({"n_components": 0}, "`n_components` must be"),
        ({"depth": 0}, "`depth` must be"),
        ({"weight_variance": 0.0}, "`weight_variance` must be"),
        ({"bias_variance": -1.0}, "`bias_variance` must be at least 0, got bias_variance=-1.0"),
        (
            {"activation": "sign"},
            "`activation` must have a derivative for kernel='ntk', got .*sign",
        ),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_are_named(options, text):
    with pytest.raises(ValueError, match=text):
        NTKTransformer(**options).fit(inputs())


def test_signs_have_features_of_their_covariance():
    X = inputs()
    Z = NTKTransformer("nngp", 20000, activation="sign", random_state=0).fit_transform(X)
    K = np.asarray(ul.kernels.nngp(X, activation="sign", bias_variance=1.0))
    assert np.abs(Z @ Z.T - K).max() < 0.1  # 7 standard deviations of 2 / sqrt(20000)
