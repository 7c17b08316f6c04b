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
