# SPDX-License-Identifier: Apache-2.0
"""What a solve holds beside its tiles; `benchmarks.operator_memory` measures the whole."""

import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.kernels import relu_gram
from unlazy.kernels.solving import preconditioner_size
from unlazy.kernels.tiles import Tiles
from unlazy.linalg import LowRankPreconditioner, pivoted_cholesky


def tiles(n, memory):
    with jax.enable_x64(True):
        return Tiles(relu_gram, jnp.ones((n, 2), jnp.float64), int(memory))


def laplace(x):
    """The columns of a kernel, one at a time, so that they alone take memory."""

    def columns(pivots):
        out = np.empty((len(x), len(pivots)))
        for j, pivot in enumerate(pivots):
            out[:, j] = np.exp(-np.linalg.norm(x - x[pivot], axis=1))
        return out

    return columns


@pytest.mark.parametrize("memory", [8e6, 2e7])
def test_the_preconditioner_takes_its_share_of_the_memory(memory):
    n = 4000
    size = preconditioner_size(tiles(n, memory))
    x = np.random.default_rng(0).standard_normal((n, 3))
    columns, diagonal = laplace(x), np.ones(n)
    tracemalloc.start()
    F = pivoted_cholesky(columns, diagonal, size.rank, block=size.block)
    precondition = LowRankPreconditioner.from_factor(F, diagonal)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert F.shape == (n, size.rank)
    assert taken <= memory * (1 / 4 + 1 / 8)
    assert taken >= memory / 5  # it is used
    inverse = precondition(np.eye(n)[:, :3])
    np.testing.assert_allclose(F @ (F.T @ inverse) + precondition.mu * inverse, np.eye(n)[:, :3],
                               atol=1e-8)  # fmt: skip


@pytest.mark.parametrize("n", [1, 100, 10**4])
@pytest.mark.parametrize("memory", [1, 10**6, 2 * 10**8, 10**11])
def test_sizes_are_within_the_matrix_and_never_zero(n, memory):
    size = preconditioner_size(tiles(n, memory))
    assert 1 <= size.rank <= n
    assert 4 <= size.block <= 128
    if memory >= 2 * 10**8:
        assert 8 * n * (size.rank + 6 * size.block) + 32 * size.rank**2 <= memory / 2


@pytest.mark.parametrize("itemsize", [4, 8])
def test_the_least_memory_is_what_just_fits(itemsize):
    least = tiles(50, 1).least(itemsize)
    assert tiles(50, least).fits(itemsize)
    assert not tiles(50, least - 8).fits(itemsize)
