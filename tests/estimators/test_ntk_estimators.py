# SPDX-License-Identifier: Apache-2.0
import functools
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from unlazy.estimators import NTKClassifier, NTKRegressor
from unlazy.kernels import nngp, ntk, posterior, relu_gram

OPTIONS = {"depth": 2, "bias_variance": 0.5}


def problem(n=60, d=4, seed=0):
    """Inputs of unlike sizes, and a smooth function of them with noise."""
    draw = np.random.default_rng(seed)
    x = draw.standard_normal((n, d)) * draw.uniform(0.2, 3.0, d)
    y = np.sin(x[:, 0]) + 0.3 * x[:, 1] * x[:, 2] + 0.1 * draw.standard_normal(n)
    return x, y


def classes(n=60, seed=0):
    x, y = problem(n, seed=seed)
    return x, np.array(["low", "middle", "high"])[np.digitize(y, [-0.5, 0.7])]


def gram(*x, **options):
    return np.asarray(ntk(*x, **(OPTIONS | options)))


@pytest.mark.parametrize("fixed", [0, 1])
def test_ridge_equals_scikit_learns_kernel_ridge_on_our_gram(fixed):
    x, y = problem()
    Y, points = np.column_stack([y, y**2]), problem(seed=1)[0]
    weights = np.random.default_rng(2).uniform(0.1, 2.0, len(x))
    ours = NTKRegressor(ridge=0.3, fit_intercept=False, fixed_layers=fixed, **OPTIONS)
    theirs = KernelRidge(kernel="precomputed").set_params(alpha=0.3)
    theirs.fit(gram(x, fixed_layers=fixed), Y, sample_weight=weights)
    expected = theirs.predict(gram(points, x, fixed_layers=fixed))
    np.testing.assert_allclose(ours.fit(x, Y, weights).predict(points), expected, rtol=1e-9)


def test_support_vectors_equal_scikit_learns_on_our_gram():
    points = problem(seed=1)[0]
    x, y = classes()
    K, K_points = gram(x), gram(points, x)
    ours = NTKClassifier(method="svm", C=3.0, **OPTIONS).fit(x, y)
    theirs = SVC(kernel="precomputed", C=3.0).fit(K, y)
    np.testing.assert_array_equal(ours.predict(points), theirs.predict(K_points))
    np.testing.assert_allclose(
        ours.decision_function(points), theirs.decision_function(K_points), rtol=1e-6, atol=1e-9
    )
    x, y = problem()
    ours = NTKRegressor(method="svm", C=3.0, epsilon=0.05, **OPTIONS).fit(x, y)
    theirs = SVR(kernel="precomputed", C=3.0, epsilon=0.05).fit(K, y)
    np.testing.assert_allclose(ours.predict(points), theirs.predict(K_points), rtol=1e-6)


@pytest.mark.parametrize("make", [NTKRegressor, functools.partial(NTKRegressor, method="svm")])
def test_a_precomputed_gram_gives_the_same_predictions(make):
    (x, y), points = problem(), problem(seed=1)[0]
    weights = np.where(np.arange(len(x)) % 5 == 0, 0.0, 1.5)  # rows of weight 0 keep their columns
    ours = make(**OPTIONS).fit(x, y, weights)
    given = make(kernel="precomputed").fit(gram(x), y, weights)
    np.testing.assert_allclose(given.predict(gram(points, x)), ours.predict(points), rtol=1e-8)


def test_kernels_by_name_and_as_functions():
    (x, y), points = problem(), problem(seed=1)[0]
    named = NTKRegressor("nngp", ridge=0.1, **OPTIONS).fit(x, y).predict(points)
    own = NTKRegressor(functools.partial(nngp, **OPTIONS), ridge=0.1).fit(x, y).predict(points)
    last = NTKRegressor(fixed_layers=2, ridge=0.1, **OPTIONS).fit(x, y).predict(points)
    np.testing.assert_allclose(named, own, rtol=1e-9)
    np.testing.assert_allclose(named, last, rtol=1e-9)
    assert NTKRegressor(relu_gram).fit(x, y).score(x, y) > 0.5


def refits(x, y, weights, ridge, **options):
    """Predictions for each row by an estimator that was fitted without it."""
    found = []
    for i in range(len(x)):
        rest = np.arange(len(x)) != i
        fitted = NTKRegressor(ridge=ridge, **options).fit(x[rest], y[rest], weights[rest])
        found.append(fitted.predict(x[i : i + 1])[0])
    return np.array(found)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_ridge_by_leaving_out_is_exact_and_the_best(intercept):
    x, y = problem(25)
    weights = np.random.default_rng(2).uniform(0.1, 2.0, len(x))
    options = OPTIONS | {"fit_intercept": intercept}
    ours = NTKRegressor(**options).fit(x, y, weights)

    def error(ridge):
        missed = refits(x, y, weights, ridge, **options) - y
        return np.average(missed**2, weights=weights)

    least = error(ours.ridge_)
    assert ours.loo_error_ == pytest.approx(least, rel=1e-7)
    assert least <= min(error(ours.ridge_ * 10**0.25), error(ours.ridge_ / 10**0.25))


def test_equal_samples_count_as_one_of_their_weight():
    x, y = problem(20)
    twice = NTKRegressor(**OPTIONS).fit(np.vstack([x, x]), np.concatenate([y, y + 0.2]))
    once = NTKRegressor(**OPTIONS).fit(x, y + 0.1, np.full(20, 2.0))
    assert twice.ridge_ == pytest.approx(once.ridge_)
    points = problem(seed=1)[0]
    np.testing.assert_allclose(twice.predict(points), once.predict(points), rtol=1e-9)
    assert len(twice.X_fit_) == 20


def test_posterior_deviations_are_those_of_a_gaussian_process():
    (x, y), points = problem(), problem(15, seed=1)[0]
    ours = NTKRegressor(ridge=0.2, fit_intercept=False, **OPTIONS).fit(x, y)
    mean, deviation = ours.predict(points, return_std=True)
    exact = posterior(gram(x), y, gram(points, x), gram(points), ridge=0.2)
    np.testing.assert_allclose(mean, exact.mean, rtol=1e-9)
    amplitude = y @ np.linalg.solve(gram(x) + 0.2 * np.eye(len(x)), y) / len(x)
    np.testing.assert_allclose(deviation, np.sqrt(amplitude * exact.variance), rtol=1e-7)
    # An intercept is a constant of infinite prior variance.
    ours.set_params(fit_intercept=True).fit(x, y)
    mean, deviation = ours.predict(points, return_std=True)
    wide = posterior(gram(x) + 1e7, y, gram(points, x) + 1e7, gram(points) + 1e7, ridge=0.2)
    np.testing.assert_allclose(mean, wide.mean, rtol=1e-4, atol=1e-5)
    ratio = deviation**2 / wide.variance
    np.testing.assert_allclose(ratio, ratio[0], rtol=1e-4)


def test_deviations_fit_the_errors_on_functions_of_the_process():
    # The mean square of 6000 standardised errors, of 60 functions, is 1 with a standard error of
    # 0.03 measured over seeds; 5 of them fail with probability 6e-7.
    draw = np.random.default_rng(0)
    x, points = problem(50, seed=3)[0], problem(100, seed=4)[0]
    L = np.linalg.cholesky(gram(np.vstack([x, points])) + 1e-9 * np.eye(150))
    y = 3.0 + 2.0 * L @ draw.standard_normal((150, 60))
    noisy = y[:50] + 2.0 * np.sqrt(0.3) * draw.standard_normal((50, 60))
    mean, deviation = (
        NTKRegressor(ridge=0.3, **OPTIONS).fit(x, noisy).predict(points, return_std=True)
    )
    assert np.mean(((y[50:] - mean) / deviation) ** 2) == pytest.approx(1, abs=0.15)


def test_the_noise_that_a_ridge_means_is_that_of_the_labels():
    x, _ = problem(400, d=3, seed=5)
    draw = np.random.default_rng(6)
    y = np.column_stack([np.sin(x[:, 0]), x[:, 1]]) + np.array([0.2, 0.4]) * draw.standard_normal(
        (400, 2)
    )
    alone = [NTKRegressor(**OPTIONS).fit(x, column).noise_std_ for column in y.T]
    np.testing.assert_allclose(alone, [0.2, 0.4], rtol=0.35)  # the ridge errs to the safe side
    assert NTKRegressor(**OPTIONS).fit(x, y).noise_std_.shape == (2,)


def test_probabilities_are_calibrated_on_samples_not_seen():
    # The one number that leaving out chooses is near the best one for 4000 new samples: a factor
    # of 1.5 either way is less likely. Fitted outputs in place of those left out would choose one
    # that is several times as large.
    draw = np.random.default_rng(1)
    x, points = draw.standard_normal((400, 2)), draw.standard_normal((4000, 2))

    def labels(x):
        chance = 1 / (1 + np.exp(-3 * np.sin(1.5 * x[:, 0]) * x[:, 1]))
        return np.where(draw.random(len(x)) < chance, "yes", "no")

    fitted = NTKClassifier(**OPTIONS).fit(x, labels(x))
    found, is_second = fitted.predict_proba(points), labels(points) == "yes"
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(fitted.classes_[found.argmax(axis=1)], fitted.predict(points))
    odds = np.log(found[:, 1] / found[:, 0])

    def likelihood(factor):
        return -np.mean(np.logaddexp(0, np.where(is_second, -1, 1) * factor * odds))

    assert likelihood(1.0) > max(likelihood(1.5), likelihood(1 / 1.5))


def test_probabilities_need_least_squares():
    x, y = classes()
    fitted = NTKClassifier(method="svm").fit(x, y)
    assert not hasattr(fitted, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba"):
        fitted.predict_proba(x)


def test_class_weights_are_weights_of_samples():
    x, y = classes()
    points = problem(seed=1)[0]
    by_class = {"low": 3.0, "middle": 1.0, "high": 0.5}
    ours = NTKClassifier(class_weight=by_class, **OPTIONS).fit(x, y)
    expected = NTKClassifier(**OPTIONS).fit(x, y, np.array([by_class[label] for label in y]))
    np.testing.assert_allclose(ours.decision_function(points), expected.decision_function(points))
    balanced = NTKClassifier(class_weight="balanced", **OPTIONS).fit(x, y)
    assert not np.allclose(balanced.decision_function(points), ours.decision_function(points))


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_frames_keep_their_names(frame):
    x, y = classes()
    table = frame(dict(zip("abcd", x.T, strict=True)))
    fitted = NTKClassifier(**OPTIONS).fit(table, y)
    assert list(vars(fitted)["feature_names_in_"]) == list("abcd")
    np.testing.assert_array_equal(
        fitted.predict(table), NTKClassifier(**OPTIONS).fit(x, y).predict(x)
    )
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame(dict(zip("abce", x.T, strict=True))))


@pytest.mark.parametrize("sign", [-1, 1])
def test_what_is_no_kernel_is_named_and_not_the_ridges(sign):
    x = np.random.default_rng(0).standard_normal((40, 3))

    def odd(x1, x2=None):
        return sign * np.tanh(np.asarray(x1) @ np.asarray(x1 if x2 is None else x2).T - 0.3)

    with pytest.raises(ValueError, match="`kernel` must be positive semi-definite"):
        NTKRegressor(kernel=odd).fit(x, x[:, 0])


def test_search_clone_and_pickle():
    x, y = classes()
    model = make_pipeline(StandardScaler(), NTKClassifier())
    grid = {"ntkclassifier__depth": [1, 2], "ntkclassifier__ridge": ["loo", 1.0]}
    search = GridSearchCV(model, grid, cv=3).fit(x, y)
    assert search.best_score_ > 0.4  # of three classes
    best = search.best_estimator_
    again = pickle.loads(pickle.dumps(best))
    np.testing.assert_array_equal(again.predict(x), best.predict(x))
    copy = clone(best[-1])
    assert isinstance(copy, NTKClassifier)
    assert copy.get_params() == best[-1].get_params()
    assert not hasattr(copy, "dual_coef_")


def test_many_samples_are_solved_by_an_operator_and_choose_the_ridge_on_some(monkeypatch):
    (x, y), points = problem(300), problem(seed=1)[0]
    weights = np.random.default_rng(2).uniform(0.5, 2.0, len(x))
    dense = NTKRegressor(ridge=0.5, **OPTIONS).fit(x, y, weights)
    for solver in ("cholesky", "float32", "conjugate-gradients"):
        tiled = NTKRegressor(ridge=0.5, solver=solver, **OPTIONS).fit(x, y, weights)
        np.testing.assert_allclose(tiled.predict(points), dense.predict(points), rtol=1e-6)
    monkeypatch.setattr("unlazy.estimators.gram_sources.LARGEST_DENSE", 200)
    some = NTKRegressor(loo_rows=100, random_state=0, **OPTIONS).fit(x, y)
    every = NTKRegressor(ridge=some.ridge_, **OPTIONS).fit(x, y)
    np.testing.assert_allclose(some.predict(points), every.predict(points), rtol=1e-6)
    assert some.loo_error_ is not None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "lasso"}, "`method` must be a known name, got method='lasso'"),
        ({"ridge": -1.0}, "`ridge` must be 'loo' or a number >= 0, got ridge=-1.0"),
        ({"ridge": "gcv"}, "`ridge` must be 'loo' or a number >= 0, got ridge='gcv'"),
        ({"kernel": "rbf"}, "`kernel` must be a known name, got kernel='rbf'"),
        ({"depth": 0}, "`depth` must be an integer >= 1, got depth=0"),
        ({"C": 0.0}, "`C` must be a positive number, got C=0.0"),
        ({"solver": "lu"}, "`solver` must be a known name, got solver='lu'"),
        ({"loo_rows": 1}, "`loo_rows` must be an integer >= 2, got loo_rows=1"),
        ({"kernel": "precomputed"}, r"`X` must be a square matrix .* got X.shape=\(60, 4\)"),
    ],
)
def test_wrong_arguments_get_one_clear_error(options, message):
    with pytest.raises(ValueError, match=message):
        NTKRegressor(**options).fit(*problem())


def test_data_that_cannot_be_fitted_get_one_clear_error():
    x, y = classes()
    with pytest.raises(ValueError, match="`y` must have two classes at least, got one class"):
        NTKClassifier().fit(x, np.full(len(x), "low"))
    with pytest.raises(TypeError, match="Sparse data was passed"):
        NTKClassifier().fit(scipy.sparse.csr_array(x), y)
    with pytest.raises(ValueError, match="`sample_weight` must be positive somewhere"):
        NTKClassifier().fit(x, y, np.zeros(len(x)))
    with pytest.raises(ValueError, match=r"`X` must have no row of zeros .* `bias_variance`"):
        NTKClassifier(bias_variance=0.0).fit(np.vstack([0 * x[:1], x[1:]]), y)
    with pytest.raises(ValueError, match="`y` must be labels of one kind"):
        NTKClassifier().fit(x[:3], np.array(["a", None, "b"], object))
    with pytest.raises(ValueError, match=r"`kernel` must give a matrix of shape \(60, 60\)"):
        NTKRegressor(lambda x1: np.asarray(x1)).fit(*problem())
    fitted = NTKRegressor(method="svm").fit(x, problem()[1])
    with pytest.raises(ValueError, match="`return_std` must be False for method='svm'"):
        fitted.predict(x, return_std=True)
