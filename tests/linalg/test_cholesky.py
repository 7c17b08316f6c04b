# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import cholesky


def random_spd(n, smallest, seed):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.geomspace(smallest, 1.0, n)
    return (Q * values) @ Q.T, rng.standard_normal((n, 2))


def test_solve_and_whiten_agree_with_numpy_in_float64_though_x64_is_off():
    H, y = random_spd(60, 1e-4, seed=0)
    factor = cholesky(H)
    assert factor is not None
    solution = np.asarray(factor.solve(y))
    assert solution.dtype == np.float64
    np.testing.assert_allclose(H @ solution, y, atol=1e-10)
    energy = np.sum(np.asarray(factor.whiten(y)) ** 2)
    assert energy == pytest.approx(np.sum(y * np.linalg.solve(H, y)), rel=1e-10)


@pytest.mark.parametrize("smallest", [1e-2, 1e-6, 1e-10])
def test_smallest_eigenvalue_is_an_upper_estimate_and_close(smallest):
    H, _ = random_spd(80, smallest, seed=1)
    factor = cholesky(H)
    assert factor is not None
    # Neighbouring eigenvalues are a factor (1/smallest)^(1/79) apart: 8 steps blend a few of them.
    assert 0.99 * smallest <= factor.smallest_eigenvalue() <= 1.5 * smallest


def test_an_indefinite_matrix_is_refused():
    assert cholesky(np.diag([1.0, -1.0, 2.0])) is None
