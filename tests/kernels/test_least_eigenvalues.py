# SPDX-License-Identifier: Apache-2.0
import functools

import jax
import numpy as np
import pytest

from unlazy.data import sphere
from unlazy.kernels import gaussian, least_eigenvalue, nngp, ntk, relu_gram


@pytest.mark.parametrize(
    "kernel",
    [
        functools.partial(ntk, depth=3),
        functools.partial(ntk, depth=1, bias_variance=0.5),
        relu_gram,
        functools.partial(nngp, depth=1, activation="sign"),
    ],
)
@pytest.mark.parametrize("norm", [1.0, 3.0])
def test_it_is_below_the_smallest_eigenvalue_and_not_by_much(kernel, norm):
    x = norm * np.asarray(sphere(300, 8, key=jax.random.key(0)), np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True) / norm
    found = least_eigenvalue(kernel, x)
    smallest = float(np.linalg.eigvalsh(np.asarray(kernel(x)))[0])
    assert smallest / 60 < found.bound < smallest
    cosines = np.abs(x @ x.T) / norm**2 - np.eye(300)
    overlap = np.max(np.sum(cosines**found.degree, axis=1))
    assert found.overlap == pytest.approx(overlap, rel=1e-6)
    assert found.overlap < 0.5


def test_the_tail_of_a_known_series_is_bounded_from_below():
    # relu_gram: t (pi - arccos t) / (2 pi), whose coefficients are those of t/4 + t arcsin(t)/2pi.
    from unlazy.kernels.least_eigenvalues import _tail

    degrees = np.arange(1, 200001)
    log_odd = np.cumsum(np.log((2 * degrees - 1) / (2 * degrees)))  # (2k)! / (4^k k!^2)
    arcsin = np.exp(log_odd) / (2 * degrees + 1)  # of t^(2k+1), hence of t^(2k+2) in the kernel
    for L in (8, 64, 512):
        tail = np.sum(arcsin[2 * degrees + 2 >= L]) / (2 * np.pi)
        assert tail / 8 < _tail(relu_gram, 1.0, 3, L) < tail + 1e-3 * tail


def test_nothing_is_claimed_for_duplicates_and_analytic_kernels():
    x = np.asarray(sphere(30, 5, key=jax.random.key(1)))
    assert least_eigenvalue(relu_gram, np.vstack([x, x[:1]])).bound == 0
    assert least_eigenvalue(functools.partial(gaussian, bandwidth=1.0), x).bound == 0


def rows_on_an_arc(angle):
    """Four rows on an arc, each so far from the next, among 26 others."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 5))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    aside = rng.normal(size=5)
    aside -= (aside @ x[0]) * x[0]
    steps = angle * np.arange(1, 4)[:, None]
    x[1:4] = np.cos(steps) * x[0] + np.sin(steps) * aside / np.linalg.norm(aside)
    return x / np.linalg.norm(x, axis=1, keepdims=True)


@pytest.mark.parametrize("angle", [1e-2, 1e-3, 6e-6, 3e-6])
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("bandwidth", [1.0, 0.1, 0.05])
def test_rounding_does_not_lift_it_above_the_smallest_eigenvalue(angle, dtype, bandwidth):
    x, kernel = rows_on_an_arc(angle), functools.partial(gaussian, bandwidth=bandwidth)
    # The determinant of the four rows is of the order of angle^12 / bandwidth^6.
    smallest = (angle**2 / bandwidth) ** 3
    assert least_eigenvalue(functools.partial(kernel, dtype=dtype), x).bound <= smallest


@pytest.mark.parametrize("angle", [1e-2, 3e-4, 1e-5, 3e-6])
def test_close_rows_still_have_a_bound_under_kernels_with_a_kink(angle):
    x, kernel = rows_on_an_arc(angle), functools.partial(ntk, depth=2)
    smallest = float(np.linalg.eigvalsh(np.asarray(kernel(x)))[0])
    assert smallest / 100 < least_eigenvalue(kernel, x).bound < smallest
    assert least_eigenvalue(functools.partial(kernel, dtype="float32"), x).bound < smallest


def test_values_in_float32_give_no_bound():
    def kernel(x1, x2=None):
        return relu_gram(x1, x2).astype("float32")

    assert least_eigenvalue(kernel, np.eye(5)).bound == 0


def test_rows_of_different_norms_are_refused():
    with pytest.raises(ValueError, match="`x` must have rows of one norm, got norms from 1 to 2"):
        least_eigenvalue(relu_gram, np.diag([1.0, 2.0]))
