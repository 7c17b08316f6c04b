# SPDX-License-Identifier: Apache-2.0
"""Trainers compute in float64 where the parameters are, though x64 is off around the call."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

import unlazy as ul


def problem(dtype):
    draw = np.random.default_rng(3)
    with jax.enable_x64(True):
        x = jnp.asarray(draw.normal(size=(20, 3)), dtype)
        return jnp.ones(3, dtype), (x, jnp.tanh(x[:, 0]))


def loss(w, batch):
    return jnp.sum((jnp.tanh(batch[0] @ w) - batch[1]) ** 2) / 2


def descend(w, data, steps, rate):
    """Gradient descent in NumPy, in float64."""
    (x, y), w = (np.asarray(part, np.float64) for part in data), np.asarray(w, np.float64)
    for _ in range(steps):
        u = np.tanh(x @ w)
        w = w - rate * x.T @ ((u - y) * (1 - u**2))
    return w


def fit(w, data):
    return ul.train.fit(loss, w, data, optimizer=optax.sgd(0.02), steps=40).params


def noisy(w, data):
    return ul.train.noisy_sgd(loss, w, data, learning_rate=0.02, steps=40, key=jr.key(0)).params


def grid(w, data):
    found = ul.train.fit_grid(
        loss, w, data, learning_rates=[0.02], epochs=40, momentum=0.0, key=jr.key(0)
    )
    return found.best("train").params


@pytest.mark.parametrize("trainer", [fit, noisy, grid])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-5), ("float64", 1e-13)])
def test_training_has_the_precision_of_its_parameters(trainer, dtype, tolerance):
    w, data = problem(dtype)
    found = trainer(w, data)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, descend(w, data, 40, 0.02), rtol=tolerance)


def test_perturbed_descent_goes_on_in_float64():
    w, data = problem("float64")
    options = {"learning_rate": 0.02, "steps": 40, "key": jr.key(1)}
    assert ul.train.perturbed_gradient_descent(loss, w, data, **options).params.dtype == "float64"
