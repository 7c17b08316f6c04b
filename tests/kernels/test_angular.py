# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from unlazy.kernels import arcsin, conjugate, gaussian, nngp, ntk, tangent


def rows(n=9, d=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, d))


def k0(u):
    return (np.pi - np.arccos(np.clip(u, -1, 1))) / np.pi


def k1(u):
    u = np.clip(u, -1, 1)
    return (np.sqrt(1 - u**2) + u * (np.pi - np.arccos(u))) / np.pi


def cosines(x, y):
    xa, ya = (np.hstack([v, np.ones((len(v), 1))]) for v in (x, y))
    return xa @ ya.T / np.outer(np.linalg.norm(xa, axis=1), np.linalg.norm(ya, axis=1))


def test_conjugate_and_tangent_are_the_formulas_of_the_paper():
    x, y = rows(), rows(5, seed=1)
    u = cosines(x, y)
    two = u * k0(u) + k1(u)
    three = two * k0(k1(u)) + k1(k1(u))
    np.testing.assert_allclose(np.asarray(conjugate(x, y)), k1(u), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(conjugate(x, y, layers=3)), k1(k1(u)), rtol=1e-13)
    np.testing.assert_allclose(np.asarray(tangent(x, y)), two, rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(np.asarray(tangent(x, y, layers=3)), three, rtol=1e-13)


@pytest.mark.parametrize("layers", [2, 3, 5])
def test_they_are_the_kernels_of_networks_up_to_scale(layers):
    # On rows of one norm, a bias column of the weights' variance is weight_variance = d bias.
    x = rows()
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    xa = np.hstack([x, np.ones((9, 1))])
    for ours, theirs in [(conjugate, nngp), (tangent, ntk)]:
        K, raw = np.asarray(ours(x, layers=layers)), np.asarray(theirs(xa, depth=layers - 1))
        np.testing.assert_allclose(K / K[0, 0], raw / raw[0, 0], rtol=1e-13)
    assert np.asarray(conjugate(x, layers=layers))[0, 0] == pytest.approx(1, rel=1e-14)
    assert np.asarray(tangent(x, layers=layers))[0, 0] == pytest.approx(layers, rel=1e-14)


def test_gaussian_agrees_with_scikit_learn_and_takes_zero_rows():
    x, y = rows(), rows(5, seed=1)
    x[0] = 0
    np.testing.assert_allclose(np.asarray(gaussian(x, y, bandwidth=3)), rbf_kernel(x, y, 1 / 3))
    K = np.asarray(gaussian(x, bandwidth=3))
    np.testing.assert_array_equal(K, K.T)
    np.testing.assert_array_equal(np.diag(K), np.ones(9))


def test_gaussian_of_close_rows_far_from_the_origin_keeps_its_digits():
    # Distances of 1e-3 at norm 1e5: the expanded square alone would be off by 1e-6 of it.
    x = 1e5 * np.ones((3, 4)) + 1e-3 * rows(3)
    distance = ((x[:, None] - x[None]) ** 2).sum(axis=2)
    ours = np.asarray(gaussian(x, bandwidth=1e-6))
    np.testing.assert_allclose(ours, np.exp(-distance / 1e-6), rtol=1e-5)


def test_arcsin_is_the_angle_and_the_kernel_of_random_signs():
    x, y = rows(), rows(5, seed=1)
    c = x @ y.T / np.outer(np.linalg.norm(x, axis=1), np.linalg.norm(y, axis=1))
    np.testing.assert_allclose(np.asarray(arcsin(x, y)), np.arcsin(c), atol=2e-15)
    np.testing.assert_array_equal(np.diag(np.asarray(arcsin(x))), np.full(9, np.pi / 2))
    # Signs of Gaussian features: 45 entries of standard error below 1/sqrt(m), 4.5 of which all
    # hold except with probability 3e-4.
    m = 100_000
    w = np.random.default_rng(2).standard_normal((4, m))
    mean = np.sign(x @ w) @ np.sign(y @ w).T / m
    assert np.abs(mean - 2 / np.pi * np.arcsin(c)).max() < 4.5 / np.sqrt(m)


def test_bad_arguments_get_one_clear_error():
    with pytest.raises(ValueError, match="`bandwidth` must be a positive number"):
        gaussian(rows(), bandwidth=0)
    with pytest.raises(ValueError, match="`layers` must be an integer >= 2, got layers=1"):
        conjugate(rows(), layers=1)
    with pytest.raises(ValueError, match="`x1` must have no row of zeros"):
        arcsin(np.zeros((2, 2)))
