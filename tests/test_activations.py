# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

import unlazy as ul

SMOOTH = {
    "identity": lambda z: z,
    "quadratic": lambda z: z**2 / 2,
    "sigmoid": lambda z: 1 / (1 + mpmath.exp(-z)),
    "tanh": mpmath.tanh,
    "erf": mpmath.erf,
    "softplus": lambda z: mpmath.log(1 + mpmath.exp(z)),
    "gelu": lambda z: z * mpmath.ncdf(z),
    "sin": mpmath.sin,
    "cos": mpmath.cos,
    "exp": mpmath.exp,
}
POINTS = (-2.3, -0.4, 0.0, 0.7, 1.9)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("k", [0, 1, 2, 3, 6])
def test_derivatives_agree_with_mpmath(name, k, x64):
    ours = ul.activation(name).derivative(k)(jnp.array(POINTS))
    with mpmath.workdps(40):
        exact = [float(mpmath.diff(SMOOTH[name], mpmath.mpf(z), k)) for z in POINTS]
    # High derivatives are sums of terms of size up to k! that cancel.
    np.testing.assert_allclose(ours, exact, rtol=1e-13, atol=2e-15 * math.factorial(k))


@pytest.mark.parametrize("name", [*SMOOTH, "relu", "relu3"])
def test_first_derivative_is_what_automatic_differentiation_gives(name, x64):
    sigma = ul.activation(name)
    z = jnp.array(POINTS)
    np.testing.assert_allclose(jax.vmap(jax.grad(sigma))(z), sigma.derivative(1)(z), atol=1e-14)


@pytest.mark.parametrize("name", SMOOTH)
def test_taylor_coefficients_agree_with_mpmath(name):
    with mpmath.workdps(40):
        exact = [float(c) for c in mpmath.taylor(SMOOTH[name], 0, 7)]
    ours = ul.activation(name).taylor(7)
    assert ours.dtype == np.float64
    np.testing.assert_allclose(ours, exact, rtol=1e-13, atol=1e-15)


def test_relu_has_slope_one_at_zero_as_in_the_papers():
    # AR-100: the indicator is >=; jax.nn.relu has 0 there.
    relu, zero = ul.activation("relu"), jnp.zeros(())
    assert float(relu.derivative(1)(zero)) == 1
    assert float(jax.grad(relu)(zero)) == 1
    np.testing.assert_array_equal(relu(jnp.array([-1.0, 0.0, 2.0])), [0, 0, 2])


def test_relu3_is_a_sixth_of_the_cube():
    sigma, z = ul.activation("relu3"), jnp.array([-1.0, 2.0])
    for k, value in enumerate([8 / 6, 2.0, 2.0, 1.0]):
        np.testing.assert_allclose(sigma.derivative(k)(z), [0, value], rtol=1e-6)


@pytest.mark.parametrize(("name", "order"), [("relu", 2), ("relu3", 4)])
def test_derivatives_that_do_not_exist_are_refused(name, order):
    with pytest.raises(ValueError, match=f"`k` must be at most {order - 1} for {name}"):
        ul.activation(name).derivative(order)
    with pytest.raises(ValueError, match="has a kink at 0"):
        ul.activation(name).taylor(1)
    with pytest.raises(ValueError, match="`k` must be an integer >= 0"):
        ul.activation(name).derivative(-1)


def test_shift_moves_the_argument(x64):
    # The shift b of NB: the logistic function of z - b.
    z = jnp.array(POINTS)
    np.testing.assert_allclose(
        ul.activation("sigmoid", shift=0.5)(z), 1 / (1 + jnp.exp(0.5 - z)), rtol=1e-14
    )


def test_a_polynomial_has_its_coefficients_and_derivatives(x64):
    sigma, z = ul.polynomial([1.0, -2.0, 0.0, 4.0]), jnp.array(POINTS)
    np.testing.assert_allclose(sigma(z), 1 - 2 * z + 4 * z**3, atol=1e-13)
    np.testing.assert_allclose(sigma.derivative(2)(z), 24 * z, atol=1e-13)
    np.testing.assert_array_equal(sigma.derivative(4)(z), jnp.zeros(5))
    np.testing.assert_array_equal(sigma.taylor(4), [1, -2, 0, 4, 0])
    assert sigma == ul.polynomial([1, -2, 0, 4])
    assert hash(sigma) == hash(ul.polynomial([1, -2, 0, 4]))


def test_softplus_is_stable_far_out():
    z = jnp.array([-100.0, 100.0])
    np.testing.assert_allclose(ul.activation("softplus")(z), [0.0, 100.0], atol=1e-30)


@pytest.mark.parametrize("name", [*SMOOTH, "relu", "relu3"])
def test_dtype_in_is_dtype_out(name, x64):
    for dtype in (jnp.float32, jnp.float64):
        z = jnp.array(POINTS, dtype)
        assert ul.activation(name)(z).dtype == dtype
        assert ul.activation(name, shift=0.5).derivative(1)(z).dtype == dtype


def test_unknown_names_get_the_nearest():
    with pytest.raises(ValueError, match="Did you mean 'sigmoid'"):
        ul.activation("sigmoide")
    with pytest.raises(ValueError, match="`coefficients` must be a non-empty sequence"):
        ul.polynomial([])
    assert ul.activation(ul.activation("tanh")) == ul.activation("tanh")


@pytest.mark.parametrize("name", ["sigmoid", "tanh", "softplus"])
@pytest.mark.parametrize("k", [1, 4, 8])
def test_derivatives_keep_their_digits_in_float32_far_out(name, k):
    # As a polynomial in s near 1 the eighth derivative of the sigmoid at 5 had the wrong sign.
    z = np.array([-8.0, -5.0, 5.0, 8.0], np.float32)
    with mpmath.workdps(40):
        exact = [float(mpmath.diff(SMOOTH[name], mpmath.mpf(float(v)), k)) for v in z]
    np.testing.assert_allclose(ul.activation(name).derivative(k)(jnp.asarray(z)), exact, rtol=2e-3)


def test_nan_stays_nan_and_huge_arguments_have_gradients():
    for name in ("relu", "relu3"):
        sigma = ul.activation(name)
        assert jnp.isnan(sigma(jnp.array(jnp.nan)))
        assert jnp.isnan(sigma.derivative(1)(jnp.array(jnp.nan)))
        assert float(jax.grad(sigma)(jnp.array(-1e30))) == 0


def test_integers_are_not_truncated(no_shape_checker):
    np.testing.assert_allclose(ul.polynomial([1, 0.5])(jnp.arange(3)), [1, 1.5, 2])  # pyright: ignore[reportArgumentType]  # integers on purpose


def test_a_kink_away_from_zero_has_an_expansion():
    np.testing.assert_array_equal(ul.activation("relu", shift=-1.0).taylor(3), [1, 1, 0, 0])
    with pytest.raises(ValueError, match="`shift` must be 0"):
        ul.activation(ul.activation("tanh"), shift=1.0)


PIECEWISE = {
    "abs": (ul.activation("abs"), abs, (-1, 1)),
    "leaky": (ul.activation("leaky_relu", slope=0.25), lambda z: max(z, z / 4), (0.25, 1)),
    "default leaky": (ul.activation("leaky_relu"), lambda z: max(z, z / 100), (0.01, 1)),
    "abrelu": (ul.activation("abrelu", slopes=(3, -2)), lambda z: min(3 * z, -2 * z), (3, -2)),
    "square": (ul.activation("rectified_power", power=2), lambda z: max(z, 0) ** 2, (0, 0)),
    "relu": (ul.activation("rectified_power", power=1), lambda z: max(z, 0), (0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", PIECEWISE)
def test_piecewise_activations_have_the_slope_from_the_right_at_zero(name):
    sigma, function, slopes = PIECEWISE[name]
    z = jnp.array([-1.5, 0.0, 2.0])
    np.testing.assert_allclose(sigma(z), [function(float(v)) for v in z], rtol=1e-6)
    np.testing.assert_allclose(
        jax.vmap(jax.grad(sigma))(z), sigma.derivative(1)(z), rtol=1e-6, atol=1e-7
    )
    assert float(sigma.derivative(1)(jnp.zeros(()))) == pytest.approx(slopes[1])
    if name != "square":
        assert float(sigma.derivative(1)(jnp.array(-1e-20))) == pytest.approx(slopes[0])
    assert bool(jnp.isnan(sigma(jnp.array(jnp.nan))))
    assert not sigma.is_smooth


def test_rectified_power_has_all_its_derivatives_and_no_more():
    sigma, z = ul.activation("rectified_power", power=4), jnp.array([-1.0, 0.5])
    for k, expected in enumerate([0.0625, 0.5, 3, 12, 24]):
        np.testing.assert_allclose(sigma.derivative(k)(z), [0, expected], rtol=1e-6)
    with pytest.raises(ValueError, match="`k` must be at most 4 for rectified_power"):
        sigma.derivative(5)
    step = ul.activation("rectified_power", power=0)
    np.testing.assert_array_equal(step(jnp.array([-1.0, 0.0, 2.0])), [0, 1, 1])
    np.testing.assert_array_equal(ul.activation("sign")(jnp.array([-1.0, 0.0, 2.0])), [-1, 0, 1])
    shifted = ul.activation("rectified_power", power=2, shift=-3)
    np.testing.assert_allclose(shifted.taylor(4), [9, 6, 1, 0, 0])


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("relu", {"slope": 0.1}, "`slope` must be left out for relu, got slope=0.1"),
        ("leaky_relu", {"power": 2}, "`power` must be left out for leaky_relu"),
        ("leaky_relu", {"slope": math.inf}, "`slope` must be a finite number"),
        ("abrelu", {}, "`slopes` must be two numbers for abrelu, not both zero"),
        ("abrelu", {"slopes": (0, 0)}, "`slopes` must be two numbers for abrelu, not both zero"),
        ("rectified_power", {}, "`power` must be an integer >= 0, got power=None"),
        ("rectified_power", {"power": 100}, "`power` must be at most 64"),
        (ul.activation("relu"), {"power": 2}, "`power` must be left out for an activation made"),
    ],
)
def test_options_of_other_activations_are_refused(name, options, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        ul.activation(name, **options)
