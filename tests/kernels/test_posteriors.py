# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.kernels import nngp, posterior

N, T, C = 6, 3, 2


def conditioned(joint, y, noise):
    """The Gaussian of the last points given the first: from the inverse of the whole covariance."""
    n = len(y)
    joint = joint + noise * np.diag(np.arange(len(joint)) < n)
    precision = np.linalg.inv(joint)
    covariance = np.linalg.inv(precision[n:, n:])
    return -covariance @ precision[n:, :n] @ y, covariance


@pytest.fixture
def coupled():
    rng = np.random.default_rng(5)
    J = rng.standard_normal((N + T, C, 40)) * rng.uniform(0.3, 2.0, (N + T, 1, 1))
    return np.einsum("iap,jbp->ijab", J, J), rng.standard_normal((N, C))


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_it_is_the_conditional_distribution(ridge):
    rng = np.random.default_rng(2)
    x = rng.standard_normal((N + T, 4)) * rng.uniform(0.5, 2.0, (N + T, 1))
    K, y = np.asarray(nngp(x, activation="erf", bias_variance=0.3)), rng.standard_normal((N, C))
    found = posterior(K[:N, :N], y, K[N:, :N], K[N:, N:], ridge=ridge)
    mean, covariance = conditioned(K, y, ridge)
    np.testing.assert_allclose(found.mean, mean, atol=1e-9)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-10)
    np.testing.assert_allclose(found.variance, np.diag(covariance), atol=1e-10)


def test_coupled_outputs_are_conditioned_together(coupled):
    K, y = coupled
    found = posterior(K[:N, :N], y, K[N:, :N], K[N:, N:], relative_ridge=0.1)
    noise = 0.1 * np.mean(np.einsum("iiaa->ia", K[:N, :N]))
    joint = K.transpose(0, 2, 1, 3).reshape((N + T) * C, -1)
    mean, covariance = conditioned(joint, y.reshape(-1), noise)
    np.testing.assert_allclose(found.mean, mean.reshape(T, C), atol=1e-10)
    whole = covariance.reshape(T, C, T, C)
    np.testing.assert_allclose(found.covariance, whole.transpose(0, 2, 1, 3), atol=1e-10)
    np.testing.assert_allclose(found.variance, np.einsum("iaia->ia", whole), atol=1e-10)


def test_at_its_own_points_it_is_certain_and_far_away_it_is_the_prior():
    found = posterior(np.eye(3), np.arange(3.0), np.eye(4, 3), np.eye(4))
    np.testing.assert_allclose(found.mean, [0, 1, 2, 0], atol=1e-12)
    np.testing.assert_allclose(found.variance, [0, 0, 0, 1], atol=1e-12)
    assert np.all(found.variance >= 0)


def test_a_repeated_point_is_counted_once_without_noise():
    K = np.array([[2.0, 2.0, 1.0], [2.0, 2.0, 1.0], [1.0, 1.0, 1.0]])
    found = posterior(K[:2, :2], np.ones(2), K[2:, :2], K[2:, 2:])
    np.testing.assert_allclose(found.mean, [0.5])
    np.testing.assert_allclose(found.covariance, [[0.5]])


def test_shapes_are_named(coupled, no_shape_checker):
    K, y = coupled
    with pytest.raises(ValueError, match=r"`cross_gram` must have shape \(t, 6, 2, 2\)"):
        posterior(K[:N, :N], y, K[N:, :N, 0, 0], K[N:, N:])
    with pytest.raises(ValueError, match=r"`test_gram` must have shape \(3, 3, 2, 2\)"):
        posterior(K[:N, :N], y, K[N:, :N], K[:N, :N])
    with pytest.raises(ValueError, match="`ridge` must be a number >= 0"):
        posterior(np.eye(2), np.ones(2), np.eye(2), np.eye(2), ridge=-1.0)
    with pytest.raises(ValueError, match=r"`y` must have shape \(6, 2\), a column for each output"):
        posterior(K[:N, :N], y[:, 0], K[N:, :N], K[N:, N:])
