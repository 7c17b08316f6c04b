# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import column_space, eigh


def test_decomposition_is_in_float64_ordered_and_orthonormal():
    A = np.random.default_rng(0).standard_normal((50, 50))
    H = A @ A.T
    eigen = eigh(H)
    V = np.asarray(eigen.vectors)
    assert V.dtype == eigen.values.dtype == np.float64
    assert np.all(np.diff(eigen.values) <= 0)
    np.testing.assert_allclose((V * eigen.values) @ V.T, H, atol=1e-11)
    np.testing.assert_allclose(V.T @ V, np.eye(50), atol=1e-12)


def test_the_largest_entry_of_each_eigenvector_is_positive():
    A = np.random.default_rng(1).standard_normal((30, 30))
    V = np.asarray(eigh(A + A.T).vectors)
    assert np.all(V[np.abs(V).argmax(axis=0), np.arange(30)] > 0)


@pytest.mark.parametrize(("n", "c", "rank"), [(20, 6, 4), (5, 9, 5), (7, 7, 1)])
def test_the_basis_is_orthonormal_and_spans_the_columns(n, c, rank):
    rng = np.random.default_rng(n)
    A = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, c))
    space = column_space(A, cut=1e-10)
    Q = space.basis
    assert space.rank == rank
    np.testing.assert_allclose(Q.T @ Q, np.eye(rank), atol=1e-13)
    np.testing.assert_allclose(Q @ (Q.T @ A), A, atol=1e-12)
    np.testing.assert_allclose(space.values, np.linalg.svd(A, compute_uv=False), atol=1e-12)


def test_small_directions_survive_that_a_gram_matrix_would_lose():
    A = np.array([[1.0, 1.0], [0.0, 1e-9], [0.0, 0.0]])
    assert column_space(A, cut=1e-10).rank == 2
    assert column_space(A * 1e-3, cut=1e-10, relative=True).rank == 2
    assert column_space(A, cut=1e-8).rank == 1


def test_no_columns_span_nothing():
    assert column_space(np.zeros((4, 0)), cut=1e-10).basis.shape == (4, 0)
    assert column_space(np.zeros((4, 2)), cut=1e-10).rank == 0
