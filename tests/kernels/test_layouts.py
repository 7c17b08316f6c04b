# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.kernels.layouts import Layout, flat, layout_of, total_ridge, unflat


def test_a_kernel_of_two_outputs_is_a_matrix_of_pairs():
    K = np.arange(2 * 3 * 2 * 2.0).reshape(2, 3, 2, 2)
    matrix = flat(K)
    for i, j, a, b in np.ndindex(K.shape):
        assert matrix[2 * i + a, 2 * j + b] == K[i, j, a, b]
    square = np.arange(36.0).reshape(3, 3, 2, 2)
    np.testing.assert_array_equal(unflat(np.asarray(flat(square)), Layout(3, 2)), square)
    stacked = np.stack([flat(square), 2 * flat(square)])
    np.testing.assert_array_equal(unflat(stacked, Layout(3, 2))[1], 2 * square)


def test_a_product_with_flat_outputs_is_the_sum_over_pairs():
    rng = np.random.default_rng(0)
    K, y = rng.standard_normal((2, 3, 2, 2)), rng.standard_normal((3, 2))
    found = flat(K) @ Layout(3, 2).flat_outputs(y)
    np.testing.assert_allclose(found.reshape(2, 2), np.einsum("ijab,jb->ia", K, y))


def test_layouts_are_read_off_the_shape(no_shape_checker):
    assert layout_of(np.eye(3)) == Layout(3, None)
    assert layout_of(np.zeros((3, 3, 2, 2))) == Layout(3, 2)
    with pytest.raises(ValueError, match="`H` must be a square Gram matrix"):
        layout_of(np.zeros((2, 2, 2)))
    with pytest.raises(ValueError, match=r"`K` must be a Gram matrix of shape \(n, n\) or"):
        layout_of(np.zeros((2, 3, 2, 2)), "K")


def test_the_relative_ridge_is_in_units_of_the_diagonal():
    assert total_ridge(0.5, 0.1, 20.0) == 2.5
