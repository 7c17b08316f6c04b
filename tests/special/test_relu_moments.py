# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from unlazy.special import arc_cosine, orthant_probability

GAPS = np.unique(np.concatenate([10.0 ** -np.arange(0, 60, 3), np.linspace(1e-3, 1, 60)]))


def exact(gap, obtuse):
    """Orthant probability, kappa_1 and 1 - kappa_1 in 150 digits."""
    with mpmath.workdps(150):
        cos = 1 - mpmath.mpf(float(gap))
        cos = -cos if obtuse else cos
        theta = mpmath.acos(cos)
        kappa = (mpmath.sin(theta) + (mpmath.pi - theta) * cos) / mpmath.pi
        return [(mpmath.pi - theta) / (2 * mpmath.pi), kappa, 1 - kappa]


@pytest.mark.parametrize("obtuse", [False, True])
def test_agrees_with_mpmath_down_to_the_smallest_angles(obtuse, x64):
    c = jnp.asarray(-(1 - GAPS) if obtuse else 1 - GAPS)
    ours = np.stack(arc_cosine(c - (1e-300 if obtuse else 0.0), jnp.asarray(GAPS)))
    truth = np.array([[float(v) for v in exact(gap, obtuse)] for gap in GAPS]).T
    np.testing.assert_allclose(ours[0], truth[0], rtol=1e-15)
    np.testing.assert_allclose(ours[1], truth[1], rtol=1e-15, atol=2e-16)
    # The relative error of the gap is at most eps / sqrt(gap): one of eps in the next angle.
    error = np.abs(ours[2] - truth[2]) / truth[2]
    assert (error <= 2e-15 / np.sqrt(np.maximum(GAPS, 1e-30))).all()
    assert (np.abs(np.sqrt(ours[2]) - np.sqrt(truth[2])) <= 3e-16).all()


def test_orthant_is_that_of_the_correlation_alone(x64):
    c = jnp.linspace(-0.999, 0.999, 101)
    ours = arc_cosine(c, 1 - jnp.abs(c)).orthant
    np.testing.assert_allclose(ours, orthant_probability(c), rtol=1e-15)


def test_derivative_of_kappa_1_is_twice_the_orthant_probability(x64):
    # Price's theorem: d/dc E[relu relu] = E[step step]; kappa_1 is twice the former.
    c = jnp.linspace(-0.99, 0.99, 41)
    slope = jax.vmap(jax.grad(lambda c: arc_cosine(c, 1 - jnp.abs(c)).cos))(c)
    np.testing.assert_allclose(slope, 2 * orthant_probability(c), rtol=1e-11)


def test_gradient_is_finite_where_rows_are_parallel(x64):
    slope = jax.grad(lambda gap: sum(arc_cosine(1 - gap, gap)))(0.0)
    assert bool(jnp.isfinite(slope))


def dense_grid():
    """Both ends with their closest neighbours, the middle, and everything between."""
    close = np.concatenate([2.0 ** -np.arange(2, 54), np.linspace(0, 1, 1500)])
    return np.unique(np.concatenate([close, 1 - close, [0.0, 1.0, 0.5]]).clip(0, 1))


def exact_probability(c):
    with mpmath.workdps(40):
        return [(mpmath.pi - mpmath.acos(mpmath.mpf(float(v)))) / (2 * mpmath.pi) for v in c]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_agrees_with_mpmath_to_the_last_place_including_the_ends(dtype, x64):
    c = np.concatenate([-dense_grid(), dense_grid()]).astype(dtype)
    ours = np.asarray(orthant_probability(jnp.asarray(c)))
    assert ours.dtype == dtype
    error = np.array(
        [float(mpmath.mpf(float(p)) - q) for p, q in zip(ours, exact_probability(c), strict=True)]
    )
    eps = float(np.finfo(dtype).eps)
    # 1/2 has a unit in the last place of eps/2; the docstring promises one such unit ...
    assert np.abs(error).max() <= 0.5 * eps
    # ... and a small relative error, also where the probability itself vanishes at c = -1.
    size = np.array([float(q) for q in exact_probability(c)])
    positive = size > 0
    assert (np.abs(error[positive]) / size[positive]).max() <= 4 * eps


def test_values_that_need_no_computation_are_exact_probability(x64):
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
