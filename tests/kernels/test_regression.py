# SPDX-License-Identifier: Apache-2.0
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.kernel_ridge import KernelRidge

from unlazy.kernels import KernelRegression, regression, relu_gram


def sample(n, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 5)), rng.standard_normal((n, 2))


@pytest.mark.parametrize("memory", [1, None])
@pytest.mark.parametrize("ridge", [0.01, 1])
def test_it_agrees_with_kernel_ridge_of_scikit_learn(ridge, memory):
    x, y = sample(32, 0)
    points, _ = sample(7, 1)
    fitted = KernelRegression(relu_gram, ridge=ridge, memory=memory).fit(x, y)
    peer = KernelRidge(alpha=ridge, kernel="precomputed").fit(np.asarray(relu_gram(x)), y)
    expected = peer.predict(np.asarray(relu_gram(points, x)))
    np.testing.assert_allclose(fitted.predict(points), expected, atol=1e-8)
    assert fitted.predict(points).dtype == np.float64


def test_without_a_ridge_it_interpolates_and_keeps_the_shape_of_the_labels():
    x, y = sample(32, 2)
    fitted = KernelRegression(relu_gram).fit(x, y[:, 0])
    assert fitted.solution.converged
    np.testing.assert_allclose(fitted.predict(x), y[:, 0], atol=1e-7)
    both = KernelRegression(relu_gram).fit(x, y).predict(x[:3])
    np.testing.assert_allclose(both, y[:3], atol=1e-7)


def test_predictions_in_blocks_add_up(monkeypatch):
    x, y = sample(32, 3)
    points, _ = sample(8, 4)
    fitted = KernelRegression(relu_gram, ridge=0.1).fit(x, y)
    whole = fitted.predict(points)
    monkeypatch.setitem(regression._BLOCK, "cpu", (4, 6))
    np.testing.assert_allclose(fitted.predict(points), whole, atol=1e-12)


def test_what_is_no_kernel_is_refused_and_not_predicted_as_zero():
    x = np.random.default_rng(0).standard_normal((60, 7))

    def sigmoid(x1, x2=None):
        return jnp.tanh(x1 @ (x1 if x2 is None else x2).T - 1)

    with pytest.raises(ValueError, match=r"`kernel` must be positive semi-definite.*ridge 0\.1"):
        KernelRegression(sigmoid, ridge=0.1).fit(x, np.sin(x[:, 0]))


def test_a_fit_prints_in_a_line():
    fitted = KernelRegression(relu_gram).fit(np.eye(2), np.ones((2, 3)))
    assert repr(fitted).startswith(
        "FittedKernelRegression(relu_gram of samples of shape (2, 2), labels of shape (2, 3), "
        "converged by cholesky, residual "
    )


def test_a_negative_ridge_is_refused():
    with pytest.raises(ValueError, match="`ridge` must be >= 0 and finite, got ridge=-1"):
        KernelRegression(relu_gram, ridge=-1)


@pytest.mark.parametrize("points", [np.ones((3, 4)), np.ones(5), np.ones((0, 5))])
def test_samples_of_another_shape_are_named(points, no_shape_checker):
    fitted = KernelRegression(relu_gram, ridge=1.0).fit(*sample(8, 5))
    with pytest.raises(ValueError, match=r"`x` must hold samples of shape \(5,\)"):
        fitted.predict(points)
