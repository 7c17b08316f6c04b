# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import column_space


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
