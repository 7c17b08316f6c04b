# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.papers.arora2019 import absolute_loss, clipped_absolute_loss, ramp_loss, zero_one_loss

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
    u, y = np.array([0.0, 5e-324, -5e-324]), np.ones(3)
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


@pytest.mark.parametrize("loss", ALL)
def test_shapes_that_differ_are_refused_also_under_jit(loss, no_shape_checker):
    u, y = np.ones((4, 1)), np.ones(4)
    message = r"`y` must have the shape of `u`, \(4, 1\), got y.shape=\(4,\)"
    for call, kind in ((loss, np.asarray), (loss, jnp.asarray), (jax.jit(loss), jnp.asarray)):
        with pytest.raises(ValueError, match=message):
            call(kind(u), kind(y))


@pytest.mark.parametrize("kind", [np.asarray, jnp.asarray])
def test_nan_is_an_error_of_prediction(kind):
    u, y = kind([np.nan, np.nan, 2.0, np.inf]), kind([1.0, -1.0, 1.0, 1.0])
    np.testing.assert_array_equal(zero_one_loss(u, y), [1, 1, 0, 0])


@pytest.mark.parametrize("loss", [ramp_loss, zero_one_loss])
@pytest.mark.parametrize("labels", [[1.0, 0.0], [1.0, 2.0], [1.0, np.nan], [1, 0]])
def test_labels_other_than_signs_are_refused_by_value(loss, labels, no_shape_checker):
    for y in (labels, np.array(labels), jnp.array(labels)):
        with pytest.raises(ValueError, match="`y` must hold labels of plus and minus 1"):
            loss(np.ones(2), y)


@pytest.mark.parametrize("loss", ALL)
def test_lists_and_integers_are_taken_as_numbers(loss, no_shape_checker):
    expected = loss(np.array([2.0, -1.0]), np.array([1.0, 1.0]))
    np.testing.assert_array_equal(loss([2, -1], [1, 1]), expected)
    np.testing.assert_array_equal(loss(jnp.array([2, -1]), jnp.array([1, 1])), expected)
