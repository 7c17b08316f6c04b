# SPDX-License-Identifier: Apache-2.0
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels import KernelRegression, relu_gram, ridge_path


def sample(n, *, d=4, outputs=(), seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True), generator.normal(size=(n, *outputs))


@pytest.mark.parametrize("outputs", [(), (1,), (3,)])
def test_every_ridge_is_a_kernel_regression_of_its_own(outputs):
    x, y = sample(20, outputs=outputs)
    far = sample(7, seed=1)[0]
    ridges = [1e-3, 0.1, 20.0]
    path = ridge_path(relu_gram(x), y, ridges)
    predictions = path.predict(relu_gram(far, x))
    assert predictions.shape == (3, 7, *outputs)
    for ridge, found in zip(ridges, predictions, strict=True):
        expected = KernelRegression(relu_gram, ridge=ridge).fit(x, y).predict(far)
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_coefficients_solve_the_regularised_system():
    x, y = sample(15, outputs=(2,))
    H = np.asarray(relu_gram(x))
    path = ridge_path(H, y)
    for ridge, coefficients in zip(path.ridges, path.coefficients, strict=True):
        left = (H + ridge * np.eye(15)) @ coefficients
        np.testing.assert_allclose(left, y, atol=1e-6)


def test_errors_are_summed_over_outputs_and_averaged_over_samples():
    x, y = sample(12, outputs=(3,))
    far, targets = sample(9, outputs=(3,), seed=1)
    path, cross = ridge_path(relu_gram(x), y), relu_gram(far, x)
    by_output = [ridge_path(relu_gram(x), y[:, i]).errors(cross, targets[:, i]) for i in range(3)]
    np.testing.assert_allclose(path.errors(cross, targets), np.sum(by_output, axis=0), rtol=1e-12)


@pytest.mark.parametrize("outputs", [(), (2,)])
def test_leaving_out_in_closed_form_is_leaving_out_one_by_one(outputs):
    x, y = sample(10, outputs=outputs)
    ridges = np.array([1e-6, 1e-2, 1.0])
    by_hand = np.zeros(3)
    for i in range(10):
        rest = np.arange(10) != i
        path = ridge_path(relu_gram(x[rest]), y[rest], ridges)
        by_hand += path.errors(relu_gram(x[i : i + 1], x[rest]), y[i : i + 1]) / 10
    found = ridge_path(relu_gram(x), y, ridges).leave_one_out()
    np.testing.assert_allclose(found, by_hand, rtol=1e-8)


def penalised(H, y, ridge, weights, intercept):
    """The minimiser of the docstring by its normal equations, as one least-squares problem."""
    n = len(H)
    w = np.asarray(weights)[:, None]
    columns = np.hstack([H, np.ones((n, 1))]) if intercept else H
    penalty = np.zeros((columns.shape[1],) * 2)
    penalty[:n, :n] = ridge * H
    return np.linalg.solve(columns.T @ (w * columns) + penalty, columns.T @ (w * y))


@pytest.mark.parametrize("intercept", [False, True])
def test_weights_and_an_intercept_minimise_the_penalised_sum(intercept):
    x, y = sample(12, outputs=(2,))
    weights = np.random.default_rng(3).uniform(0.2, 3.0, 12)
    H = np.asarray(relu_gram(x))
    path = ridge_path(H, y, [0.01, 1.0], weights=weights, intercept=intercept)
    for k, ridge in enumerate(path.ridges):
        expected = penalised(H, y, ridge, weights, intercept)
        np.testing.assert_allclose(path.coefficients[k], expected[:12], rtol=1e-6, atol=1e-8)
        b = expected[12] if intercept else np.zeros(2)
        np.testing.assert_allclose(path.intercepts[k], b, rtol=1e-7, atol=1e-9)
        fitted = H @ expected[:12] + b
        np.testing.assert_allclose(path.predict(H)[k], fitted, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
def test_surprises_are_labels_minus_predictions_by_all_others(intercept):
    x, y = sample(10, outputs=(2,))
    weights = np.random.default_rng(3).uniform(0.2, 3.0, 10)
    weights[4] = 0.0
    H = np.asarray(relu_gram(x))
    path = ridge_path(H, y, [0.05, 2.0], weights=weights, intercept=intercept)
    found = path.surprises()
    for i in range(10):
        rest = np.arange(10) != i
        without = ridge_path(
            H[np.ix_(rest, rest)], y[rest], path.ridges, weights=weights[rest], intercept=intercept
        )
        expected = y[i] - without.predict(H[i : i + 1, rest])[:, 0]
        expected = expected if weights[i] else 0 * expected
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-8, atol=1e-10)
    error = np.average(np.sum(found**2, axis=2), axis=1, weights=weights)
    np.testing.assert_allclose(path.leave_one_out(), error, rtol=1e-12)


def test_wrong_weights_are_refused(no_shape_checker):
    for weights in (np.ones(3), -np.ones(4), np.zeros(4), np.full(4, np.nan)):
        with pytest.raises(ValueError, match="`weights` must be 4 finite numbers >= 0"):
            ridge_path(np.eye(4), np.ones(4), weights=weights)


def test_degrees_of_freedom_go_from_all_samples_to_none():
    path = ridge_path(relu_gram(sample(25)[0]), sample(25)[1], [1e-14, 1e-3, 1e14])
    all_of_them, some, none = path.degrees_of_freedom()
    assert all_of_them == pytest.approx(25, abs=1e-6)
    assert 0 < some < 25
    assert none == pytest.approx(0, abs=1e-10)


def test_the_default_path_reaches_interpolation_and_the_mean_eigenvalue():
    x, y = sample(30)
    H = relu_gram(x)
    path = ridge_path(H, y)
    assert path.ridges[[0, -1]] == pytest.approx(np.trace(H) / 30 * np.array([1e-10, 1e3]))
    on_train = path.errors(H, y)
    assert on_train[0] < 1e-8 * np.mean(y**2)
    assert on_train[-1] > 0.9 * np.mean(y**2)
    assert np.all(np.diff(on_train) > 0)


def test_duplicates_are_averaged():
    H, y = jnp.ones((2, 2)), jnp.array([1.0, 0.0])
    path = ridge_path(H, y, [1e-9])
    np.testing.assert_allclose(path.predict(jnp.ones((1, 2))), [[0.5]], rtol=1e-6)


@pytest.mark.usefixtures("no_shape_checker")
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"H": np.ones((2, 3))}, "`H` must be a square"),
        ({"H": np.diag([1.0, -1.0])}, "positive semi-definite"),
        ({"H": np.zeros((2, 2))}, "not zero"),
        ({"H": np.array([[1.0, np.nan], [np.nan, 1.0]])}, "`H`"),
        ({"y": np.ones(3)}, "`y` must have shape"),
        ({"ridges": [1.0, 0.0]}, "`ridges` must be"),
        ({"ridges": []}, "`ridges` must be"),
        ({"ridges": [np.inf]}, "`ridges` must be"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        ridge_path(**({"H": np.eye(2), "y": np.ones(2)} | change))


@pytest.mark.usefixtures("no_shape_checker")
def test_what_does_not_fit_the_training_samples_is_named():
    path = ridge_path(np.eye(2), np.ones(2))
    with pytest.raises(ValueError, match=r"`H_cross` must have shape \(t, 2\)"):
        path.predict(np.ones((4, 3)))
    with pytest.raises(ValueError, match="`H_cross`"):
        path.predict(np.full((1, 2), np.inf))
    with pytest.raises(ValueError, match="`H_cross` must have shape"):
        path.errors(np.array(1.0), np.ones(1))
    with pytest.raises(ValueError, match=r"`y` must have shape \(4,\)"):
        path.errors(np.ones((4, 2)), np.ones(3))
    with pytest.raises(ValueError, match="`y` must be finite"):
        path.errors(np.ones((4, 2)), np.full(4, np.nan))


@pytest.mark.usefixtures("no_shape_checker")
@pytest.mark.parametrize(("fitted", "given"), [((), (1,)), ((1,), ()), ((3,), (1,)), ((3,), ())])
def test_labels_of_other_outputs_are_refused_and_not_broadcast(fitted, given):
    path = ridge_path(np.eye(4), np.ones((4, *fitted)), [1.0, 2.0, 3.0, 4.0])
    with pytest.raises(ValueError, match="the outputs that were fitted"):
        path.errors(np.eye(4), np.ones((4, *given)))


def test_a_path_keeps_labels_of_its_own():
    y = np.ones(2)
    path = ridge_path(np.eye(2), y, [1.0])
    y[:] = 7.0
    np.testing.assert_allclose(path.predict(np.eye(2)), [[0.5, 0.5]])
