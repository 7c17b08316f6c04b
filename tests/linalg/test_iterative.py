# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import conjugate_gradients


def spd(n, condition, seed=0):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    return (Q * np.geomspace(1 / condition, 1.0, n)) @ Q.T, rng.standard_normal((n, 3))


@pytest.mark.parametrize("condition", [1e1, 1e3, 1e5])
def test_it_agrees_with_a_direct_solve_to_what_the_residual_promises(condition):
    H, y = spd(60, condition)
    solution = conjugate_gradients(lambda v: H @ v, y, tolerance=1e-11)
    assert solution.converged
    true = np.max(np.linalg.norm(y - H @ solution.value, axis=0) / np.linalg.norm(y, axis=0))
    assert solution.residual == pytest.approx(true, rel=1e-6)
    error = np.linalg.norm(solution.value - np.linalg.solve(H, y))
    assert error <= 2 * condition * 1e-11 * np.linalg.norm(y)


def test_as_many_iterations_as_there_are_distinct_eigenvalues():
    Q, _ = np.linalg.qr(np.random.default_rng(1).standard_normal((50, 50)))
    H = (Q * np.repeat([1.0, 2.0, 5.0, 7.0, 11.0], 10)) @ Q.T
    solution = conjugate_gradients(lambda v: H @ v, np.ones((50, 1)), tolerance=1e-10)
    assert solution.converged
    assert solution.iterations <= 6  # five, and the first guess


def test_the_inverse_as_preconditioner_needs_no_iteration():
    H, y = spd(40, 1e4)
    inverse = np.linalg.inv(H)
    solution = conjugate_gradients(lambda v: H @ v, y, precondition=lambda r: inverse @ r)
    assert solution.converged
    assert solution.iterations == 1


def test_a_wrong_preconditioner_is_survived():
    H, y = spd(40, 1e2)
    solution = conjugate_gradients(lambda v: H @ v, y, precondition=lambda r: 1e6 * r)
    assert solution.converged
    np.testing.assert_allclose(solution.value, np.linalg.solve(H, y), rtol=1e-6)


def test_a_singular_system_is_solved_when_it_can_be_and_reported_when_not():
    H, y = spd(30, 1e2)
    H[:, 0] = H[0] = 0
    solution = conjugate_gradients(lambda v: H @ v, H @ y)
    assert solution.converged
    impossible = conjugate_gradients(lambda v: H @ v, np.eye(30)[:, :1] + H @ y[:, :1])
    assert not impossible.converged
    assert impossible.residual > 1e-3
    assert np.all(np.isfinite(impossible.value))


def test_zero_columns_and_an_indefinite_matrix_give_no_nan():
    H, y = spd(20, 1e2)
    y[:, 1] = 0
    solution = conjugate_gradients(lambda v: H @ v, y)
    assert solution.converged
    assert not np.any(solution.value[:, 1])
    indefinite = conjugate_gradients(lambda v: -H @ v, y)
    assert not indefinite.converged
    assert np.isfinite(indefinite.residual)


def test_progress_counts_up_and_ends_at_its_guess():
    H, y = spd(60, 1e4)
    seen = []
    solution = conjugate_gradients(
        lambda v: H @ v, y, tolerance=1e-8, progress=lambda k, total: seen.append((k, total))
    )
    assert solution.converged
    done = [k for k, _ in seen]
    assert done == sorted(done)
    assert all(total >= k for k, total in seen)
    assert seen[-1][1] <= seen[-1][0] + 2


def test_iterations_are_bounded():
    H, y = spd(60, 1e6)
    solution = conjugate_gradients(lambda v: H @ v, y, max_iterations=5)
    assert solution.iterations <= 5
    assert not solution.converged


@pytest.mark.parametrize(
    ("matmat", "y", "message"),
    [
        (lambda v: v[:2], np.ones((3, 1)), "`matmat` must return a block of shape .3, 1., got"),
        (lambda _: None, np.ones((3, 1)), "`matmat` must return .* got NoneType"),
        (lambda v: np.eye(2) @ v, np.ones((3, 1)), "`matmat` must accept a block of shape .3, 1."),
        (np.copy, np.ones(3), "`y` must have"),
        (np.copy, np.full((3, 1), np.nan), "`y` must"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(matmat, y, message):
    with pytest.raises(ValueError, match=message):
        conjugate_gradients(matmat, y)
