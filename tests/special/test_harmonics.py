# SPDX-License-Identifier: Apache-2.0
import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import eval_chebyt, eval_legendre

import unlazy as ul
from unlazy.special import (
    funk_hecke,
    gegenbauer,
    gegenbauer_power,
    gegenbauer_rule,
    harmonic_dimension,
    zonal_rule,
)

T = np.linspace(-1, 1, 41)


def relu(z):
    return jnp.maximum(z, 0)


def relu_by_rodrigues(d, k):
    """E[relu(t) P_k(t)], integrated by parts twice with Rodrigues' formula."""
    Z = math.exp(math.lgamma(d / 2) - math.lgamma((d - 1) / 2)) / math.sqrt(math.pi)
    if k == 0:
        return Z / (d - 1)
    if k % 2:
        return 1 / (2 * d) if k == 1 else 0.0
    half, exponent = (k - 2) // 2, k + (d - 3) / 2
    binomial = math.exp(
        math.lgamma(exponent + 1) - math.lgamma(half + 1) - math.lgamma(exponent - half + 1)
    )
    r = math.exp(math.lgamma((d - 1) / 2) - math.lgamma(k + (d - 1) / 2)) / 2**k
    return Z * r * math.factorial(k - 2) * (-1) ** half * binomial


def test_dimensions_are_those_of_homogeneous_polynomials_and_their_sum_telescopes():
    # Polynomials of degree k in d variables, restricted to the sphere, split by degrees k, k-2, ...
    for d in (2, 3, 5, 30):
        for k in range(7):
            homogeneous = math.comb(d + k - 1, k)
            assert sum(harmonic_dimension(d, j) for j in range(k, -1, -2)) == homogeneous
            below = sum(harmonic_dimension(d, j) for j in range(k + 1))
            assert below == homogeneous + (math.comb(d + k - 2, k - 1) if k else 0)
    # NB-9: n_2(30), n_2(10), n_2(100).
    sums = [sum(harmonic_dimension(d, j) for j in range(3)) for d in (30, 10, 100)]
    assert sums == [495, 65, 5150]


def test_polynomials_are_chebyshevs_on_the_circle_and_legendres_on_the_sphere():
    for k in range(9):
        np.testing.assert_allclose(gegenbauer(T, 2, 8)[k], eval_chebyt(k, T), atol=1e-14)
        np.testing.assert_allclose(gegenbauer(T, 3, 8)[k], eval_legendre(k, T), atol=1e-14)


@pytest.mark.parametrize("d", [2, 3, 6, 30, 1000])
@pytest.mark.parametrize("rule", [lambda d: gegenbauer_rule(d, 12), zonal_rule])
def test_polynomials_are_orthogonal_with_one_over_the_dimension(d, rule):
    nodes, weights = rule(d)
    P = gegenbauer(nodes, d, 8)
    sizes = np.array([harmonic_dimension(d, k) for k in range(9)], float)
    scaled = P * np.sqrt(sizes)[:, None]
    np.testing.assert_allclose((scaled * weights) @ scaled.T, np.eye(9), atol=2e-12)
    assert weights @ nodes**2 == pytest.approx(1 / d, rel=1e-13)
    assert weights @ nodes**4 == pytest.approx(3 / (d * (d + 2)), rel=1e-13)


def test_the_addition_theorem_holds_on_the_sphere_in_three_dimensions(getkey):
    # sum over a basis of degree 2: the five harmonics of degree 2, written out.
    x = np.asarray(ul.data.sphere(7, 3, key=getkey()), np.float64)
    a, b, c = x.T
    basis = np.stack([a * b, b * c, a * c, (a**2 - b**2) / 2, (3 * c**2 - 1) / math.sqrt(12)])
    basis *= math.sqrt(15)  # of mean square one
    kernel = harmonic_dimension(3, 2) * gegenbauer(x @ x.T, 3, 2)[2]
    np.testing.assert_allclose(basis.T @ basis, kernel, atol=1e-5)  # float32 rows


@pytest.mark.parametrize("d", [2, 3, 7, 100])
def test_powers_are_rebuilt_from_their_coefficients(d):
    for p in range(11):
        b = gegenbauer_power(d, p)
        np.testing.assert_allclose(b @ gegenbauer(T, d, p), T**p, atol=1e-14)
        assert b.sum() == pytest.approx(1, abs=1e-14)
        assert (b >= 0).all()
        assert not b[1 - p % 2 :: 2].any()


@pytest.mark.parametrize("d", [3, 5, 6, 20, 100])
def test_the_coefficients_of_relu_are_those_of_rodrigues_formula(d):
    # BL-35: mu_1 = 1/(2d), odd ones from 3 on vanish; to a relative 1e-10 while above rounding.
    c = funk_hecke(relu, d, 10)
    expected = [relu_by_rodrigues(d, k) for k in range(11)]
    np.testing.assert_allclose(c, expected, rtol=1e-10, atol=1e-16)
    assert c[1] == pytest.approx(1 / (2 * d), rel=1e-14)


def test_funk_hecke_coefficients_are_the_tabulated_ones_for_the_sigmoid():
    # NB-10: sqrt(N_l) c_l of s' and s'' at d = 30, radius sqrt(d), to the six digits given.
    table = {
        1.0: ([0.177817, 0.053567, -0.024145, -0.018509], [0.052002, -0.035424, -0.033729]),
        1.5: ([0.148420, 0.065158, -0.006989, -0.017779], [0.063633, -0.010992, -0.032844]),
        2.0: ([0.116046, 0.065247, 0.007107, -0.011919], [0.064202, 0.009449, -0.022520]),
    }
    size = np.sqrt([harmonic_dimension(30, k) for k in range(4)])
    for b, rows in table.items():
        sigma = ul.activation("sigmoid", shift=b)
        for order, row in enumerate(rows, start=1):
            c = funk_hecke(sigma.derivative(order), 30, len(row) - 1, scale=math.sqrt(30))
            np.testing.assert_allclose(size[: len(row)] * c, row, atol=6e-7)


def test_funk_hecke_gives_the_mean_over_random_directions(getkey):
    # 4e5 draws against the identity, within 5 standard errors: fails by chance below 1e-6.
    d, k = 4, 2
    w = np.asarray(ul.data.sphere(400_000, d, key=getkey()), np.float64)
    beta, x = np.asarray(ul.data.sphere(2, d, key=getkey()), np.float64)
    draws = gegenbauer(w @ beta, d, k)[k] * np.maximum(w @ x, 0)
    expected = funk_hecke(relu, d, k)[k] * gegenbauer(np.array(beta @ x), d, k)[k]
    error = draws.std() / math.sqrt(len(draws))
    assert draws.mean() == pytest.approx(expected, abs=5 * error)
    assert error < 0.05 * abs(funk_hecke(relu, d, k)[k])


def test_a_smooth_function_is_rebuilt_from_its_coefficients():
    d, degree = 6, 24
    c = funk_hecke(jnp.exp, d, degree, scale=2)
    size = np.array([float(harmonic_dimension(d, k)) for k in range(degree + 1)])
    np.testing.assert_allclose((size * c) @ gegenbauer(T, d, degree), np.exp(2 * T), rtol=1e-12)


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="`d` must be an integer >= 2, got d=1"):
        harmonic_dimension(1, 2)
    with pytest.raises(ValueError, match="`degree` must be an integer >= 0, got degree=-1"):
        gegenbauer(T, 3, -1)
    with pytest.raises(ValueError, match="`power` must be an integer >= 0"):
        gegenbauer_power(3, -2)
    with pytest.raises(ValueError, match="`nodes` must be an integer >= 1"):
        gegenbauer_rule(3, 0)
    with pytest.raises(ValueError, match="`scale` must be a positive number"):
        funk_hecke(jnp.exp, 3, 2, scale=0)
    with pytest.raises(ValueError, match="`function` must be finite"):
        funk_hecke(lambda t: jnp.log(t), 3, 2)
