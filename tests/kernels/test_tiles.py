# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels import relu_gram
from unlazy.kernels.tiles import Tiles


def tiles(n, memory, kernel=relu_gram):
    with jax.enable_x64(True):
        x = jnp.asarray(np.random.default_rng(0).standard_normal((n, 3)), jnp.float64)
    return Tiles(kernel, x, memory)


@pytest.mark.parametrize(("n", "memory"), [(1, 1), (16, 1), (50, 1), (50, 10**6), (5000, 10**8)])
def test_spans_cover_every_row_once_and_keep_to_the_budget(n, memory):
    parts = tiles(n, memory).spans()
    covered = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    np.testing.assert_array_equal(covered, np.arange(n))
    side = max(part.stop - part.start for part in parts)
    assert side <= 16 or 6 * 8 * side**2 <= memory / 8


def test_tiles_below_the_diagonal_are_never_evaluated():
    seen = []

    def kernel(x1, x2=None):
        seen.append(None if x2 is None else (x1.shape[0], x2.shape[0]))
        return relu_gram(x1, x2)

    tiles(50, 1, kernel).matmat(np.ones((50, 1)))
    count = 4  # of 16 rows
    assert len(seen) == count * (count + 1) // 2
    assert seen.count(None) == count


def test_an_assembled_matrix_is_scaled_shifted_and_exactly_symmetric():
    parts = tiles(40, 1)
    H = np.asarray(relu_gram(parts.x))
    scale = np.linspace(1, 2, 40)
    made = np.asarray(parts.assemble(scale=scale, shift=0.5))
    np.testing.assert_allclose(made, scale[:, None] * H * scale + 0.5 * np.eye(40), atol=1e-14)
    np.testing.assert_array_equal(made, made.T)
    assert parts.assemble(np.float32).dtype == np.float32


def test_the_first_parallel_row_is_found_across_tiles():
    parts = tiles(40, 1)
    with jax.enable_x64(True):
        x = parts.x.at[35].set(2 * parts.x[3]).at[38].set(parts.x[3]).at[5].set(parts.x[4])
    first = Tiles(relu_gram, x, 1).first_parallel()
    expected = np.arange(40)
    expected[[35, 38, 5]] = 3, 3, 4
    np.testing.assert_array_equal(first, expected)


def test_what_fits_is_counted_in_bytes():
    n = 100
    assert tiles(n, 8 * 8 * n * n // 7 + 8).fits()
    assert not tiles(n, 8 * n * n).fits()
    assert tiles(n, 8 * n * n).fits(itemsize=4)


@pytest.mark.parametrize("n", [47, 50, 53])
def test_all_tiles_have_one_shape_and_products_count_shared_rows_once(n):
    seen = set()

    def kernel(x1, x2=None):
        seen.add(x1.shape if x2 is None else (*x1.shape, *x2.shape))
        return relu_gram(x1, x2)

    parts = tiles(n, 1, kernel)
    V = np.random.default_rng(n).standard_normal((n, 2))
    H = np.asarray(relu_gram(parts.x))
    np.testing.assert_allclose(parts.matmat(V), H @ V, atol=1e-12)
    assert len(seen) == 2  # one on the diagonal, one beside it
    some = np.array([n - 1, 0, 20])
    np.testing.assert_allclose(parts.columns(some, width=8), H[:, some], atol=1e-14)
    assert len(seen) == 3
    np.testing.assert_allclose(np.asarray(parts.assemble()), H, atol=1e-14)


def test_a_row_that_two_tiles_share_is_not_parallel_to_itself():
    n = 50
    parts = tiles(n, 1)
    assert sum(span.stop - span.start for span in parts._evaluated()) > n
    np.testing.assert_array_equal(parts.first_parallel(), np.arange(n))
