# SPDX-License-Identifier: Apache-2.0
import math
from functools import partial

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import unlazy as ul
from unlazy.kernels import arcsin, nngp, ntk

# Each is homogeneous: its degree, and its values at -1 and at 1.
SHAPES = {
    "abs": (ul.activation("abs"), 1, 1, 1),
    "leaky": (ul.activation("leaky_relu", slope=0.1), 1, -0.1, 1),
    "leaky, falling": (ul.activation("leaky_relu", slope=-3), 1, 3, 1),
    "abrelu": (ul.activation("abrelu", slopes=(2, 0.5)), 1, -2, 0.5),
    "linear": (ul.activation("abrelu", slopes=(2, 2)), 1, -2, 2),
    "sign": (ul.activation("sign"), 0, -1, 1),
    "step": (ul.activation("rectified_power", power=0), 0, 0, 1),
    "relu": (ul.activation("rectified_power", power=1), 1, 0, 1),
    "square": (ul.activation("rectified_power", power=2), 2, 0, 1),
    "relu3": (ul.activation("relu3"), 3, 0, 1 / 6),
    "sixth": (ul.activation("rectified_power", power=6), 6, 0, 1),
}
ANGLES = (0, 1e-9, 1e-6, 1e-3, 0.3, 1.5, 2.7, math.pi - 1e-6, math.pi)
NORMS = (0.3, 7.0)


def moment(theta, degree, below, above):
    """E[f(u) f(v)] of unit Gaussians at an angle, for f homogeneous: an integral over directions.

    In polar coordinates the radius gives 2^k k!; the rest is piecewise analytic in the direction.
    """

    def f(z):
        return (above if z > 0 else below) * abs(z) ** degree

    quarter = mpmath.pi / 2
    kinks = sorted({-quarter, quarter, theta - quarter, theta + quarter, 3 * quarter})
    inside = [k for k in kinks if -quarter <= k <= 3 * quarter]
    total = mpmath.quad(lambda a: f(mpmath.cos(a)) * f(mpmath.cos(a - theta)), inside)
    return 2**degree * mpmath.factorial(degree) * total / (2 * mpmath.pi)


def recursion(theta, depth, degree, below, above):
    """One minus the tangent kernel (the covariance for degree 0) over its diagonal."""
    top = moment(0, degree, below, above)
    total = mpmath.cos(theta)
    for _ in range(depth):
        # Homogeneous of degree 1: E f'^2 = E f^2.
        slope = moment(theta, 0, -below, above) / top if degree else 0
        c = moment(theta, degree, below, above) / top
        theta, total = mpmath.acos(c), c + slope * total
    return 1 - total / (1 + depth * degree)


def rows(angle, norm):
    if angle == math.pi:
        return [-norm, 0.0]
    return [norm * math.cos(angle), norm * math.sin(angle)]


@pytest.mark.parametrize("name", SHAPES)
def test_moments_are_exact_at_every_angle_and_norm(name):
    # The errors are relative to the diagonal, as rounding of the rows is; sums of terms of size
    # k^2 grow with the power.
    phi, degree, below, above = SHAPES[name]
    x1, x2 = np.array([rows(0, NORMS[0])]), np.array([rows(a, NORMS[1]) for a in ANGLES])
    s1, s2 = (norm / math.sqrt(2) for norm in NORMS)
    with mpmath.workdps(40):
        angles = [mpmath.mpf(a) if a != math.pi else mpmath.pi for a in ANGLES]
        value = [moment(a, degree, below, above) for a in angles]
        scale = float(moment(0, degree, below, above))
    ours = np.asarray(nngp(x1, x2, activation=phi, weight_variance=1.0))[0]
    tolerance = 4e-16 * (1 + degree**2)
    np.testing.assert_allclose(
        ours / (s1 * s2) ** degree / scale, np.array(value, float) / scale, atol=tolerance
    )
    if degree == 0:
        return
    with mpmath.workdps(40):
        slope = [degree**2 * moment(a, degree - 1, -below, above) for a in angles]
    hidden = np.asarray(ntk(x1, x2, activation=phi, weight_variance=1.0, trained="hidden"))[0]
    expected = np.array(slope, float) * np.cos(ANGLES)
    np.testing.assert_allclose(
        hidden / (s1 * s2) ** degree / max(expected), expected / max(expected), atol=tolerance
    )


@pytest.mark.parametrize("name", ["abs", "leaky", "sign"])
def test_angle_of_nearly_parallel_rows_survives_every_layer(name):
    # The slopes see the angle itself, of which a rounded cosine has nothing left below 1e-8.
    phi, *shape = SHAPES[name]
    angles = (1e-9, 1e-6, 1e-3)
    x = np.array([rows(a, 1.0) for a in (0, *angles)])
    trained = "all" if shape[0] else "last"
    for depth in (1, 3):
        K = np.asarray(ntk(x, depth=depth, activation=phi, weight_variance=1.0, trained=trained))
        with mpmath.workdps(60):
            exact = [recursion(mpmath.mpf(a), depth, *shape) for a in angles]
        gap = 1 - K[0, 1:] / K[0, 0]
        np.testing.assert_allclose(gap, np.array(exact, float), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize(
    ("function", "phi"),
    [
        (jnp.abs, "abs"),
        (abs, "abs"),
        (jax.nn.relu, "relu"),
        (jax.nn.leaky_relu, "leaky_relu"),
        (
            partial(jax.nn.leaky_relu, negative_slope=0.2),
            ul.activation("leaky_relu", slope=0.2),
        ),
        (jnp.sign, "sign"),
    ],
)
def test_functions_of_jax_with_a_kink_are_recognised(function, phi):
    # As Hermite series they were off by 1e-4 for nearly parallel rows.
    x = np.array([[1.0, 0], [2, 0], [1, 1e-3], [-3, 0], [1, 1]])
    ours = np.asarray(nngp(x, activation=function))
    np.testing.assert_array_equal(ours, np.asarray(nngp(x, activation=phi)))
    assert ours[0, 1] / np.sqrt(ours[0, 0] * ours[1, 1]) == pytest.approx(1, rel=1e-15)


def test_sign_is_the_arcsine_kernel_and_has_no_tangent_kernel():
    x = np.random.default_rng(0).standard_normal((6, 3))
    K = np.asarray(nngp(x, activation="sign", weight_variance=1.0))
    np.testing.assert_allclose(K, 2 / np.pi * np.asarray(arcsin(x)), rtol=1e-14, atol=1e-15)
    for phi in ("sign", jnp.sign, ul.activation("rectified_power", power=0)):
        with pytest.raises(ValueError, match="`activation` must have a slope of finite mean sq"):
            ntk(x, activation=phi)


def test_relu_is_one_of_the_two_slopes():
    x = np.random.default_rng(1).standard_normal((6, 3))
    relu, same = (
        np.asarray(ntk(x, activation=phi, depth=3, bias_variance=0.1))
        for phi in ("relu", ul.activation("abrelu", slopes=(0, 1)))
    )
    np.testing.assert_allclose(same, relu, rtol=1e-14)


@pytest.mark.filterwarnings("ignore:the Hermite series:unlazy.core.errors.UnlazyWarning")
@pytest.mark.parametrize("shift", [1.0, -0.4])
def test_kink_that_a_shift_moves_is_integrated_exactly(shift):
    # By panels that break at 0 alone, the slope's diagonal was off by 2.6e-2.
    s = np.array([0.6, 1.3])
    x, t = np.sqrt(2) * np.diag(s), shift / s
    upper = np.array([math.erfc(v / math.sqrt(2)) / 2 for v in t])
    density = np.exp(-(t**2) / 2) / math.sqrt(2 * math.pi)
    phi = ul.activation("relu", shift=shift)
    covariance = np.asarray(nngp(x, activation=phi, weight_variance=1.0))
    mean, square = s * (density - t * upper), s**2 * ((1 + t**2) * upper - t * density)
    expected = np.where(np.eye(2, dtype=bool), np.diag(square), np.outer(mean, mean))
    np.testing.assert_allclose(covariance, expected, rtol=1e-13)
    hidden = np.asarray(ntk(x, activation=phi, weight_variance=1.0, trained="hidden"))
    np.testing.assert_allclose(hidden, np.diag(upper * s**2), rtol=1e-13, atol=1e-16)
    step = ul.activation("sign", shift=shift)
    covariance = np.asarray(nngp(x, activation=step, weight_variance=1.0))
    np.testing.assert_allclose(covariance[0, 1], np.prod(2 * upper - 1), rtol=1e-13)
