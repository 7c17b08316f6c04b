# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.bounds import absolute_loss, clipped_absolute_loss, ramp_loss, zero_one_loss

ALL = [absolute_loss, clipped_absolute_loss, ramp_loss, zero_one_loss]


def predictions():
    rng = np.random.default_rng(0)
    return rng.uniform(-3, 3, 500), rng.choice([-1.0, 1.0], 500)


def test_losses_are_ordered_for_labels_of_plus_and_minus_one():
    # AR-18: zero-one <= ramp <= min(1, l1).
    u, y = predictions()
    assert np.all(zero_one_loss(u, y) <= ramp_loss(u, y))
    assert np.all(ramp_loss(u, y) <= clipped_absolute_loss(u, y) + 1e-15)
    np.testing.assert_array_equal(clipped_absolute_loss(u, y), np.minimum(absolute_loss(u, y), 1))
    assert np.any(ramp_loss(u, y) < clipped_absolute_loss(u, y))  # beyond the label only one grows


@pytest.mark.parametrize("loss", [ramp_loss, clipped_absolute_loss])
def test_bounded_losses_are_one_lipschitz_and_zero_at_the_label(loss):
    u, y = predictions()
    v = u + np.random.default_rng(1).uniform(-1, 1, 500)
    ratio = np.abs(loss(u, y) - loss(v, y)) / np.abs(u - v)
    assert 0.99 < ratio.max() <= 1 + 1e-12
    assert np.all(loss(y, y) == 0)
    assert loss(u, y).min() >= 0
    assert loss(u, y).max() == 1


def test_a_prediction_of_zero_is_an_error_and_a_tiny_right_one_is_not():
    u, y = np.array([0.0, 1e-200, -1e-200]), np.array([1.0, 1e-200, 1e-200])
    np.testing.assert_array_equal(zero_one_loss(u, y), [1.0, 0.0, 1.0])


@pytest.mark.parametrize("loss", ALL)
def test_losses_follow_their_arguments_and_compile(loss):
    u, y = predictions()
    assert loss(u, y).dtype == np.float64
    single = loss(jnp.asarray(u), jnp.asarray(y))
    assert isinstance(single, jax.Array)
    assert single.dtype == jnp.float32
    np.testing.assert_allclose(single, loss(u, y), atol=1e-6)
    np.testing.assert_array_equal(jax.jit(loss)(jnp.asarray(u), jnp.asarray(y)), single)
    assert loss(u, jnp.asarray(y)).shape == u.shape  # float64 predictions, float32 labels
