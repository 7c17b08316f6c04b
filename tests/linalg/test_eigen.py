# SPDX-License-Identifier: Apache-2.0
import numpy as np

from unlazy.linalg import eigh


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
