# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from unlazy.special import orthant_probability


def dense_grid():
    """Both ends with their closest neighbours, the middle, and everything between."""
    close = np.concatenate([2.0 ** -np.arange(2, 54), np.linspace(0, 1, 1500)])
    return np.unique(np.concatenate([close, 1 - close, [0.0, 1.0, 0.5]]).clip(0, 1))


def exact(c):
    with mpmath.workdps(40):
        return [(mpmath.pi - mpmath.acos(mpmath.mpf(float(v)))) / (2 * mpmath.pi) for v in c]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_agrees_with_mpmath_to_the_last_place_including_the_ends(dtype, x64):
    c = np.concatenate([-dense_grid(), dense_grid()]).astype(dtype)
    ours = np.asarray(orthant_probability(jnp.asarray(c)))
    assert ours.dtype == dtype
    error = np.array([float(mpmath.mpf(float(p)) - q) for p, q in zip(ours, exact(c), strict=True)])
    eps = float(np.finfo(dtype).eps)
    # 1/2 has a unit in the last place of eps/2; the docstring promises one such unit ...
    assert np.abs(error).max() <= 0.5 * eps
    # ... and a small relative error, also where the probability itself vanishes at c = -1.
    size = np.array([float(q) for q in exact(c)])
    positive = size > 0
    assert (np.abs(error[positive]) / size[positive]).max() <= 4 * eps


def test_values_that_need_no_computation_are_exact(x64):
    c = jnp.array([-1.0, 0.0, 0.5, 1.0])
    np.testing.assert_allclose(orthant_probability(c), [0, 1 / 4, 1 / 3, 1 / 2], rtol=2e-16)
    assert float(orthant_probability(jnp.array(1.0))) == 0.5
    assert float(orthant_probability(jnp.array(-1.0))) == 0.0


def test_correlations_that_rounding_took_outside_are_clipped():
    c = jnp.array([1 + 1e-6, -1 - 1e-6])
    np.testing.assert_array_equal(orthant_probability(c), [0.5, 0.0])
    assert jnp.isnan(orthant_probability(jnp.array(jnp.nan)))


def test_derivative_is_the_closed_form_inside_and_zero_at_the_ends(x64):
    c = jnp.linspace(-0.99, 0.99, 41)
    slope = jax.vmap(jax.grad(orthant_probability))(c)
    np.testing.assert_allclose(slope, 1 / (2 * np.pi * np.sqrt(1 - c**2)), rtol=1e-14)
    h = 1e-6
    numeric = (orthant_probability(c + h) - orthant_probability(c - h)) / (2 * h)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6)
    np.testing.assert_array_equal(
        jax.vmap(jax.grad(orthant_probability))(jnp.array([-1.0, 1.0])), [0.0, 0.0]
    )
