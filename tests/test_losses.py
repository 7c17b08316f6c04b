# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.errors import UnknownNameError
from unlazy.losses import pointwise

NAMES = ["logistic", "pseudo-huber", "log-cosh", "squared", "half-squared"]


@pytest.mark.parametrize("name", NAMES)
def test_each_derivative_is_the_derivative_of_the_one_before(name, x64):
    loss = pointwise(name)
    z, y = jnp.linspace(-6.0, 6.0, 41), jnp.where(jnp.arange(41) % 2, 1.0, -1.0)
    for order in (1, 2, 3):
        slope = jax.vmap(jax.grad(loss.derivative(order - 1)))(z, y)
        np.testing.assert_allclose(loss.derivative(order)(z, y), slope, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_bounds_are_reached_and_not_exceeded(name, x64):
    loss = pointwise(name)
    z = jnp.linspace(-30.0, 30.0, 600_001)
    bounds = (loss.lipschitz, loss.curvature, loss.jerk)
    for order, bound in enumerate(bounds, 1):
        largest = float(jnp.max(jnp.abs(loss.derivative(order)(z, jnp.ones_like(z)))))
        assert largest <= bound * (1 + 1e-12)
        if np.isfinite(bound):
            assert largest == pytest.approx(bound, rel=2e-3)


def test_the_published_bounds_of_the_third_derivative():
    # BL-5: 1/(6 sqrt 3) for the logistic loss, .859 for the pseudo-Huber loss.
    assert pointwise("logistic").jerk == pytest.approx(0.09622504486)
    assert pointwise("pseudo-huber").jerk == pytest.approx(0.859, abs=5e-4)


def test_the_loss_at_zero_is_what_the_theory_assumes(x64):
    # BL-5: l(y, 0) = log 2 for the logistic loss; at most 1 for pseudo-Huber when |y| <= sqrt 3.
    zero, y = jnp.zeros(2), jnp.array([1.0, -(3**0.5)])
    assert float(pointwise("logistic")(zero, y)[0]) == pytest.approx(np.log(2))
    np.testing.assert_allclose(pointwise("pseudo-huber")(zero, y)[1], 1.0, rtol=1e-12)


def test_large_margins_neither_overflow_nor_cancel():
    z, one = jnp.array([-200.0, 200.0]), jnp.ones(2)
    np.testing.assert_allclose(pointwise("logistic")(z, one), [200.0, 0.0], atol=1e-30)
    near = pointwise("pseudo-huber")(1 + jnp.array([1e-4]), jnp.ones(1))
    np.testing.assert_allclose(near, 5e-9, rtol=3e-3)  # 1 + 1e-4 rounds in float32
    z = jnp.array([-200.0, 3e-4, 0.0])
    far_and_near = pointwise("log-cosh")(z, jnp.zeros(3))
    np.testing.assert_allclose(far_and_near, [200 - np.log(2), 4.5e-8, 0.0], rtol=1e-6)


def test_automatic_differentiation_finds_the_curvature_at_the_label():
    loss = pointwise("log-cosh")
    assert float(jax.grad(jax.grad(loss))(jnp.array(0.5), jnp.array(0.5))) == pytest.approx(1)


def test_unknown_names_and_orders_are_refused():
    with pytest.raises(UnknownNameError, match="`loss` must be a known name"):
        pointwise("hinge")
    with pytest.raises(ValueError, match="`order` must be from 0 to 3"):
        pointwise("squared").derivative(4)
    assert pointwise(pointwise("squared")) is pointwise("squared")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_predictions_and_labels_of_different_shapes_are_refused(name, order, no_shape_checker):
    derivative = pointwise(name).derivative(order)
    assert derivative == pointwise(name).derivative(order)  # a static argument compiles once
    for call in (derivative, jax.jit(derivative)):
        with pytest.raises(ValueError, match=r"`y` must have the shape of `z`, \(3,\)"):
            call(jnp.ones(3), jnp.ones((3, 1)))


def test_lists_and_integers_are_taken_as_predictions(no_shape_checker):
    loss: Any = pointwise("squared")  # annotated for arrays
    np.testing.assert_array_equal(loss([1, 3], [1, 1]), [0.0, 4.0])
    with pytest.raises(ValueError, match="`z` must be"):
        loss("text", [1.0])
