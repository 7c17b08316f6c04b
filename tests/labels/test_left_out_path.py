# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.labels import leave_one_out, leave_one_out_path


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 20))
    return A @ A.T / 20, rng.standard_normal((12, 3))


def test_predictions_are_those_of_fits_without_the_row(problem):
    H, y = problem
    path = leave_one_out_path(H, y, [0.3])
    for i in range(len(H)):
        rest = np.delete(np.arange(len(H)), i)
        alpha = np.linalg.solve(H[np.ix_(rest, rest)] + 0.3 * np.eye(len(rest)), y[rest])
        np.testing.assert_allclose(path.surprises[i], y[i] - H[i, rest] @ alpha, rtol=1e-9)
    assert path.error == pytest.approx(np.mean(np.sum(path.surprises**2, axis=1)))


def test_a_ridge_that_vanishes_gives_leave_one_out_of_the_interpolant(problem):
    H, y = problem
    path = leave_one_out_path(H, y[:, 0], [1e-12])
    np.testing.assert_allclose(path.surprises, leave_one_out(H, y[:, 0]).surprises, rtol=1e-6)


def test_the_best_ridge_has_the_least_error_and_follows_the_scale_of_the_kernel(problem):
    H, y = problem
    path, scaled = leave_one_out_path(H, y), leave_one_out_path(100 * H, y)
    assert path.error == path.errors.min()
    assert scaled.ridge == pytest.approx(100 * path.ridge)
    np.testing.assert_allclose(scaled.errors, path.errors, rtol=1e-6)


@pytest.mark.parametrize("ridges", [[], [0.0], [-1.0], [float("nan")]])
def test_ridges_must_be_positive(problem, ridges):
    with pytest.raises(ValueError, match="`ridges` must be positive numbers"):
        leave_one_out_path(problem[0], problem[1], ridges)
