# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import refined_solve


def spd(n, condition, seed=0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (Q * np.geomspace(1 / condition, 1.0, n)) @ Q.T, rng.standard_normal((n, 2))


def energy(y, solution):
    return np.sum(y * solution)


@pytest.mark.parametrize("condition", [1e2, 1e5])
def test_float32_factors_reach_float64_accuracy(condition):
    H, y = spd(120, condition)
    solution = refined_solve(H, y)
    assert solution is not None
    assert solution.converged
    assert solution.iterations <= 6
    exact = energy(y, np.linalg.solve(H, y))
    assert energy(y, solution.value) == pytest.approx(exact, rel=1e-10)
    # Float32 alone misses by more.
    single = np.linalg.solve(H.astype(np.float32), y.astype(np.float32))
    assert abs(energy(y, single) / exact - 1) > 1e-8


def test_where_the_float32_factorisation_fails_it_is_shifted_and_the_answer_still_right():
    # AR-54: near-duplicates with opposite labels, condition 5e8: indefinite once rounded.
    rng = np.random.default_rng(1)
    H, _ = spd(40, 1e2)
    index = np.concatenate([np.arange(40), np.arange(15)])
    H = H[np.ix_(index, index)] + 1e-8 * np.eye(55)
    y = np.concatenate([np.ones(40), -np.ones(15)])[:, None] * rng.uniform(1, 2, (55, 1))
    rounded = np.linalg.eigvalsh(H.astype(np.float32).astype(np.float64))[0]
    assert rounded < 1e-8  # float32 does not see the 1e-8
    solution = refined_solve(H, y, tolerance=1e-8)
    assert solution is not None
    true = np.linalg.norm(y - H @ solution.value) / np.linalg.norm(y)
    assert solution.residual == pytest.approx(true, rel=0.5)
    assert solution.converged
    exact = energy(y, np.linalg.solve(H, y))
    assert energy(y, solution.value) == pytest.approx(exact, rel=1e-6)


def test_rows_of_very_different_size_are_scaled_first():
    H, y = spd(60, 1e3)
    size = np.geomspace(1e-15, 1e15, 60)
    solution = refined_solve(size[:, None] * H * size, size[:, None] * y)
    assert solution is not None
    expected = np.linalg.solve(H, y)
    assert energy(y, solution.value * size[:, None]) == pytest.approx(energy(y, expected), rel=1e-6)


def test_an_indefinite_matrix_has_no_factorisation():
    assert refined_solve(np.diag([1.0, -1.0]), np.ones((2, 1))) is None
