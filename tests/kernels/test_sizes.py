# SPDX-License-Identifier: Apache-2.0
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels.sizes import padded, rows_for


def test_sizes_are_few_and_waste_little():
    sizes = [rows_for(n) for n in range(1, 5001)]
    assert all(size >= n for n, size in enumerate(sizes, start=1))
    assert len({size for size in sizes if size <= 4096}) < 60
    assert max(size / n for n, size in enumerate(sizes, start=1) if n > 32) < 1.5
    assert max(size / n for n, size in enumerate(sizes, start=1) if n > 1024) <= 1.25
    assert sizes[4096:] == list(range(4097, 5001))  # beyond, nothing is padded


@pytest.mark.parametrize("asarray", [np.asarray, jnp.asarray])
def test_padding_adds_zeros_alone(asarray):
    x = asarray(np.arange(1.0, 36.0, dtype=np.float32).reshape(5, 7))
    found = np.asarray(padded(x))
    assert found.shape == (8, 8)
    np.testing.assert_array_equal(found[:5, :7], np.asarray(x))
    assert found.sum() == np.asarray(x).sum()


def test_a_matrix_of_the_right_size_is_left_alone():
    x = np.ones((64, 16))
    assert padded(x) is x
