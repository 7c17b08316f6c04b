# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import LowRankPreconditioner, conjugate_gradients, pivoted_cholesky


def decaying(n, seed=0):
    """Eigenvalues 1/k^2 above a floor: a kernel's spectrum."""
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((n, n)))
    values = n / np.arange(1, n + 1.0) ** 2 + 1e-4
    return (Q * values) @ Q.T, values


def factor(H, rank):
    return pivoted_cholesky(lambda j: H[:, j], np.diagonal(H), rank)


def test_what_is_left_is_positive_semi_definite_and_near_the_best():
    H, values = decaying(300)
    F = factor(H, 100)
    left = H - F @ F.T
    assert F.shape == (300, 100)
    assert np.linalg.eigvalsh(left)[0] > -1e-10
    best = np.sum(values[100:])
    assert best <= np.trace(left) * (1 + 1e-9)
    assert np.trace(left) <= 4 * best


def test_full_rank_gives_the_matrix_back_and_low_rank_is_found():
    H, _ = decaying(40)
    F = factor(H, 40)
    np.testing.assert_allclose(F @ F.T, H, atol=1e-8)
    B = np.random.default_rng(2).standard_normal((200, 7))
    F = factor(B @ B.T, 150)
    assert F.shape[1] <= 14
    np.testing.assert_allclose(F @ F.T, B @ B.T, atol=1e-5)


def test_the_preconditioner_is_the_inverse_of_its_matrix():
    H, _ = decaying(60)
    F = factor(H, 20)
    P = LowRankPreconditioner.from_factor(F, np.diagonal(H), ridge=0.1)
    r = np.random.default_rng(3).standard_normal((60, 2))
    np.testing.assert_allclose((F @ F.T + P.mu * np.eye(60)) @ P(r), r, atol=1e-9)
    assert P.mu == pytest.approx(0.1 + np.mean(np.diagonal(H - F @ F.T)))


def test_it_saves_most_iterations():
    H, _ = decaying(300)
    y = np.random.default_rng(4).standard_normal((300, 1))
    plain = conjugate_gradients(lambda v: H @ v, y)
    P = LowRankPreconditioner.from_factor(factor(H, 120), np.diagonal(H))
    faster = conjugate_gradients(lambda v: H @ v, y, precondition=P)
    assert faster.converged
    assert faster.iterations < plain.iterations / 2
