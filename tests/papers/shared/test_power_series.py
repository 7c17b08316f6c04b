# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.activations import activation
from unlazy.core.errors import UnknownNameError
from unlazy.papers.shared import (
    chebyshev_series,
    log_series,
    series_composition,
    series_product,
    taylor_series,
)

NAMES = ["identity", "quadratic", "exp", "sin", "cos", "tanh", "sigmoid", "erf", "softplus", "gelu"]


@pytest.mark.parametrize("name", NAMES)
def test_named_series_have_the_taylor_coefficients_of_the_activation(name):
    # Two routes: closed-form logarithms, and derivatives of the activation at 0.
    expected = activation(name).taylor(12)
    np.testing.assert_allclose(taylor_series(name).taylor(12), expected, rtol=1e-12, atol=1e-15)
    scaled = taylor_series(name, scale=-1.5)
    np.testing.assert_allclose(
        scaled.taylor(12), expected * (-1.5) ** np.arange(13), rtol=1e-12, atol=1e-14
    )
    logs = taylor_series(name).log_coefficients(np.arange(13))
    np.testing.assert_allclose(np.exp(logs), np.abs(expected), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", NAMES)
def test_a_series_evaluates_to_its_function_and_to_its_sum(name):
    z = np.linspace(-0.9, 0.9, 7)
    series = taylor_series(name, scale=0.7)
    with jax.enable_x64(True):
        expected = np.asarray(activation(name)(0.7 * jnp.asarray(z)))
    np.testing.assert_allclose(series(z), expected, rtol=1e-13, atol=1e-15)
    assert series(z).dtype == np.float64
    total = np.polynomial.polynomial.polyval(z, series.taylor(60))
    np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-14)
    assert series(jnp.ones(2, jnp.float32)).dtype == jnp.float32


def test_high_degrees_of_tanh_follow_their_pole():
    # |c_i| ~ 2 (2/pi)^(i+1): the nearest poles, at +- i pi/2.
    i = np.array([501, 2001])
    logs = taylor_series("tanh").log_coefficients(i)
    np.testing.assert_allclose(logs, np.log(2) + (i + 1) * np.log(2 / np.pi), rtol=1e-12)


def test_products_and_compositions_are_those_of_the_functions():
    sine, exp = taylor_series("sin", scale=2), taylor_series("exp")
    z = np.linspace(-0.5, 0.5, 9)
    product = series_product(sine, exp, 30)
    np.testing.assert_allclose(product(z), np.sin(2 * z) * np.exp(z), rtol=1e-12, atol=1e-14)
    # An inner function with a constant: the outer series is moved to it.
    composed = series_composition(exp, taylor_series("cos"), 30)
    np.testing.assert_allclose(composed(z), np.exp(np.cos(z)), rtol=1e-12)
    polynomial = series_composition(taylor_series([1, -2, 3]), taylor_series([0.5, 2]), 2)
    np.testing.assert_allclose(polynomial.taylor(2), [0.75, 2, 12], atol=1e-14)
    moved = series_composition(taylor_series("tanh"), taylor_series([0.3, 1]), 20)
    np.testing.assert_allclose(moved(z), np.tanh(z + 0.3), atol=1e-6)


def test_chebyshev_polynomials_reach_where_the_taylor_series_does_not():
    # LG-25: tanh(8z) has radius pi/16; the error falls like 1.2155^-D.
    steep = taylor_series("tanh", scale=8)
    assert steep.radius == pytest.approx(np.pi / 16)
    with pytest.raises(ValueError, match=r"`radius` must be below 0.19635.*chebyshev_series"):
        steep.tail_degree(1e-6)
    fits = [chebyshev_series(lambda z: np.tanh(8 * z), degree) for degree in (21, 41, 61)]
    errors = np.array([fit.max_error for fit in fits])
    ratio = np.pi / 16 + np.sqrt(1 + (np.pi / 16) ** 2)
    np.testing.assert_allclose(errors[:-1] / errors[1:], ratio**20, rtol=0.05)
    z = np.linspace(-1, 1, 101)
    np.testing.assert_allclose(fits[1](z), np.tanh(8 * z), atol=fits[1].max_error * (1 + 1e-9))
    # The powers cancel: coefficients of 1e12 leave four digits.
    np.testing.assert_allclose(fits[1](z), fits[1].series(z), atol=1e-4)
    assert not fits[1].series.taylor(41)[::2].any()  # odd, as the function is
    wide = chebyshev_series(np.exp, 20, radius=3.0)
    np.testing.assert_allclose(wide.series(3 * z), np.exp(3 * z), atol=1e-11)


def test_series_are_cut_where_their_tail_is_small():
    series = taylor_series("exp")
    D = series.tail_degree(1e-10)
    tail = np.sum(series.taylor(60)[D + 1 :])
    assert tail <= 1e-10 < tail + series.taylor(D)[D]
    assert taylor_series([1, 2, 3]).tail_degree(1e-10) == 2
    assert taylor_series("cos").truncated(4).degree == 4


def test_bad_series_are_refused(no_shape_checker):
    with pytest.raises(UnknownNameError, match="Did you mean 'tanh'"):
        taylor_series("tanhh")
    with pytest.raises(ValueError, match="non-empty sequence"):
        taylor_series([])
    with pytest.raises(ValueError, match="`function` must be finite"):
        taylor_series([1.0, np.nan])
    with pytest.raises(ValueError, match="`factor` must not be zero"):
        taylor_series("sin", scale=0)
    with pytest.raises(TypeError, match=r"`function` must be a name.*log_series"):
        taylor_series(np.sin)  # pyright: ignore[reportArgumentType]  # on purpose
    logs = log_series(lambda i: -i * 1.0)
    with pytest.raises(ValueError, match="must have the signs"):
        logs.taylor(3)
    with pytest.raises(ValueError, match="logarithms alone"):
        logs(np.ones(1))
    with pytest.raises(ValueError, match="`degree` must be at most 100"):
        chebyshev_series(np.sin, 101)
    with pytest.raises(ValueError, match="`function` must be finite on"), np.errstate(all="ignore"):
        chebyshev_series(lambda z: 1 / (z - z), 4)
