# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.kernels import relu_gram
from unlazy.labels import degree_spectrum
from unlazy.labels import energy as label_energy


def on_sphere(n, d, seed=0):
    x = np.random.default_rng(seed).standard_normal((n, d))
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def test_parts_are_orthogonal_and_add_up_to_the_labels():
    x, y = on_sphere(60, 3), np.random.default_rng(1).standard_normal(60)
    spectrum = degree_spectrum(x, y, degree=4)
    np.testing.assert_allclose(spectrum.parts.sum(axis=1), y, atol=1e-12)
    inner = spectrum.parts.T @ spectrum.parts
    np.testing.assert_allclose(inner - np.diag(np.diagonal(inner)), 0, atol=1e-10)
    assert spectrum.shares.sum() == pytest.approx(1)
    # Spherical harmonics in three dimensions: 2k + 1 of degree k.
    assert spectrum.dimensions.tolist() == [1, 3, 5, 7, 9, 35]
    assert spectrum.random_shares.sum() == pytest.approx(1)


def test_parts_are_the_increments_of_least_squares_on_monomials():
    # The same projections from explicit polynomials in two dimensions.
    x, y = on_sphere(40, 2), np.random.default_rng(2).standard_normal(40)
    spectrum = degree_spectrum(x, y, degree=3)
    fitted = []
    for k in range(4):
        columns = [x[:, 0] ** i * x[:, 1] ** j for i in range(k + 1) for j in range(k + 1 - i)]
        design = np.stack(columns, axis=1)
        fitted.append(design @ np.linalg.lstsq(design, y, rcond=1e-10)[0])
    np.testing.assert_allclose(
        spectrum.parts[:, :4], np.diff(np.stack([0 * y, *fitted]), axis=0).T, atol=1e-9
    )


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5])
def test_a_polynomial_leaves_no_rest_and_odd_ones_are_told(p):
    spectrum = degree_spectrum(on_sphere(150, 3), on_sphere(150, 3)[:, 0] ** p, degree=6)
    assert spectrum.shares[p + 1 :].sum() < 1e-18
    assert spectrum.shares[p] > 0.01
    if p in (3, 5):
        # x^3 = (x^3 - 3x/5) + 3x/5 on the sphere in three dimensions: 16% of degree 3.
        assert spectrum.hidden_share > 0.1
        assert spectrum.energies[3] > 50 * spectrum.energies[1]
    else:
        # On a finite sample degree 3 explains a little of degree 4, as it would of anything.
        assert spectrum.hidden_share < (1e-18 if p < 3 else 0.02)


def test_the_shares_of_a_cube_are_those_of_its_harmonics():
    # E (3x/5)^2 = 3/25 of E x^6 = 1/7: 84% of degree 1, 16% of degree 3; n = 250, within 5%.
    x = on_sphere(250, 3)
    spectrum = degree_spectrum(x, x[:, 0] ** 3, degree=3)
    np.testing.assert_allclose(spectrum.shares[[1, 3]], [0.84, 0.16], atol=0.05)


def test_random_labels_have_the_shares_of_the_dimensions():
    # Mean of 20 draws of Gaussian labels; the share of a q-dimensional space out of n has standard
    # deviation below sqrt(2q)/n; 5 standard errors, failure probability below 1e-5 over 5 degrees.
    x, rng = on_sphere(50, 3), np.random.default_rng(3)
    shares = np.array(
        [degree_spectrum(x, rng.standard_normal(50), degree=3).shares for _ in range(20)]
    )
    q = np.array([1, 3, 5, 7, 34])
    error = np.sqrt(2 * q) / 50 / np.sqrt(20)
    assert np.all(np.abs(shares.mean(axis=0) - q / 50) < 5 * error)


def test_energies_are_those_of_the_parts():
    x, y = on_sphere(60, 4), np.random.default_rng(4).standard_normal(60)
    spectrum, H = degree_spectrum(x, y, degree=3), relu_gram(x)
    for part, energy in zip(spectrum.parts.T, spectrum.energies, strict=True):
        assert energy == pytest.approx(label_energy(H, part))
    assert np.sqrt(label_energy(H, y)) <= np.sqrt(spectrum.energies).sum()


def test_in_high_dimension_the_second_degree_takes_everything():
    x, y = on_sphere(40, 30), np.random.default_rng(5).standard_normal(40)
    spectrum = degree_spectrum(x, y, degree=4)
    assert spectrum.dimensions.tolist() == [1, 30, 9, 0, 0, 0]
    assert spectrum.shares[3:].sum() == 0


def test_bad_arguments_are_named(no_shape_checker):
    with pytest.raises(ValueError, match="`x` must have rows of unit norm"):
        degree_spectrum(3 * on_sphere(5, 3), np.ones(5))
    with pytest.raises(ValueError, match="`x` must have at least 2 columns"):
        degree_spectrum(np.ones((3, 1)), np.ones(3))
    with pytest.raises(ValueError, match="`degree` must be an integer >= 1"):
        degree_spectrum(on_sphere(5, 3), np.ones(5), degree=0)
    with pytest.raises(ValueError, match="`y` must have shape"):
        degree_spectrum(on_sphere(5, 3), np.ones(4))
