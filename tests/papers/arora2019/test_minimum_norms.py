# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data
from unlazy.nets import TwoLayer
from unlazy.papers.arora2019 import minimum_norm


def problem(n=20, d=6, m=300):
    key_x, key_y, key_W = jax.random.split(jax.random.key(0), 3)
    x, y = data.sphere(n, d, key=key_x), data.random_labels(n, key=key_y)
    return TwoLayer(d, m, init="antisymmetric").init(key=key_W), x, y


def features(params, x):
    """Z, from its definition."""
    rows, W = np.asarray(x, np.float64), np.asarray(params.W, np.float64)
    A, a = (rows @ W.T >= 0).astype(float), np.asarray(params.a, np.float64)
    return np.einsum("r,ir,id->ird", a, A, rows).reshape(len(rows), -1) / math.sqrt(len(a))


def test_the_lift_is_the_least_squares_solution_of_least_norm():
    # AR-70: an independent route through the explicit features.
    params, x, y = problem()
    lift = minimum_norm(params, x, y)
    Z, labels = features(params, x), np.asarray(y, np.float64)
    least = np.linalg.lstsq(Z, labels, rcond=None)[0]
    dW = np.asarray(lift.dW)
    assert dW.dtype == np.float64
    np.testing.assert_allclose(dW.ravel(), least, atol=1e-11)
    np.testing.assert_allclose(Z @ dW.ravel(), labels, atol=1e-12)
    assert np.sum(dW**2) == pytest.approx(lift.energy, rel=1e-11)
    np.testing.assert_allclose(Z @ Z.T @ lift.coefficients, labels, atol=1e-11)


def test_real_mnist_is_interpolated_to_rounding(real_data):
    # AR-70: 4e-15 at n = 200; here m = 1000 instead of 4000.
    task = data.load("mnist", classes=(0, 1), n_train=200, n_test=1, key=jax.random.key(0))
    params = TwoLayer(784, 1000, init="antisymmetric").init(key=jax.random.key(7))
    lift = minimum_norm(params, task.x_train, task.y_train)
    x, dW = np.asarray(task.x_train, np.float64), np.asarray(lift.dW)
    A = x @ np.asarray(params.W, np.float64).T >= 0
    outputs = np.sum(A * (x @ dW.T) * np.asarray(params.a, np.float64), axis=1) / math.sqrt(1000)
    np.testing.assert_allclose(outputs, task.y_train, atol=1e-11)


def test_consistent_duplicates_are_fine_and_conflicts_are_refused():
    params, x, y = problem()
    x2 = jnp.concatenate([x, x[:1]])
    alone = minimum_norm(params, x, y)
    same = minimum_norm(params, x2, jnp.concatenate([y, y[:1]]))
    np.testing.assert_allclose(same.dW, alone.dW, atol=1e-10)
    with pytest.raises(ValueError, match="`y` must be within reach of the linearised network"):
        minimum_norm(params, x2, jnp.concatenate([y, -y[:1]]))


def test_too_few_neurons_are_refused():
    params, x, y = problem(n=20, d=2, m=4)
    with pytest.raises(ValueError, match="Widen the network"):
        minimum_norm(params, x, y)


def test_bad_arguments_are_named(no_shape_checker):
    params, x, y = problem()
    with pytest.raises(ValueError, match=r"`y` must have shape \(20,\)"):
        minimum_norm(params, x, y[:3])
    with pytest.raises(ValueError, match=r"`params0.W` must have shape \(m, d\)"):
        minimum_norm(params, x[:, :3], y)
