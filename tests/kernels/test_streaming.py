# SPDX-License-Identifier: Apache-2.0
import functools

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.core.float64 import float64
from unlazy.kernels import gaussian, ntk, relu_gram
from unlazy.kernels.row_products import in_full, in_halves, products
from unlazy.kernels.streaming import streamed

N, D = 300, 7  # three tiles of 128 rows, the last one filled up


@pytest.fixture(scope="module")
def problem():
    draw = np.random.default_rng(3)
    # Norms from 0.1 to 10, and both signs of the cosine.
    x = draw.normal(size=(N, D)) * 10 ** draw.uniform(-1, 1, (N, 1))
    return x, draw.normal(size=(N, 2))


def distances(x1, x2=None):
    x2 = x1 if x2 is None else x2
    return jnp.exp(-jnp.sum(jnp.abs(x1[:, None] - x2[None]), axis=-1) / 20)


KERNELS = {
    "ntk": functools.partial(ntk, depth=3),
    "biased": functools.partial(ntk, depth=2, bias_variance=0.5, activation="erf"),
    "relu_gram": relu_gram,
    "gaussian": functools.partial(gaussian, bandwidth=100.0),
    "own": distances,
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 3e-6), ("float64", 1e-12)])
def test_products_agree_with_the_matrix(problem, name, dtype, tolerance):
    x, V = problem
    with float64():
        K = np.asarray(KERNELS[name](jnp.asarray(x)))
    gram = streamed(KERNELS[name], x, dtype=dtype, rows=128)
    product = np.asarray(gram.matmat(V))
    assert product.dtype == np.float64
    # Rounding of the entries, at most proportional to the norms of two rows, adds up.
    size = np.sqrt(np.diagonal(K))
    scale = size[:, None] * (size @ np.abs(V))[None, :]
    assert np.max(np.abs(product - K @ V) / scale) < tolerance


def test_cross_products_agree_with_the_matrix(problem):
    x, V = problem
    points = np.random.default_rng(4).normal(size=(200, D))
    gram = streamed(KERNELS["ntk"], x, dtype="float64", rows=128)
    K = np.asarray(KERNELS["ntk"](points, x))
    np.testing.assert_allclose(gram.cross(points, V), K @ V, rtol=1e-9, atol=1e-9)


def test_columns_of_samples_agree_with_the_matrix_also_where_they_meet_themselves(problem):
    x, V = problem
    K, chosen = np.asarray(KERNELS["ntk"](x)), np.array([3, 250, 0, 177])
    for dtype, tolerance in (("float64", 1e-9), ("float32", 3e-5)):
        gram = streamed(KERNELS["ntk"], x, dtype=dtype, rows=128)
        with float64():
            wide, few = (jnp.asarray(v) for v in (V, V[:4]))
        close = {"rtol": tolerance, "atol": tolerance * np.max(K)}
        np.testing.assert_allclose(gram.columns_transposed(chosen, wide), K[chosen] @ V, **close)
        np.testing.assert_allclose(gram.columns(chosen, few), K[:, chosen] @ V[:4], **close)
        square = K[chosen] @ K[:, chosen]
        np.testing.assert_allclose(gram.columns_squared(chosen), square, rtol=tolerance)


def test_progress_counts_the_tiles_on_and_above_the_diagonal(problem):
    x, V = problem
    calls = []
    streamed(relu_gram, x, rows=128).matmat(V, progress=lambda *done: calls.append(done))
    assert calls == [(6, 6)]


def test_halves_are_the_product_of_rows_rounded_to_16_bits():
    one, two = np.random.default_rng(5).normal(size=(2, 40, 300)).astype(np.float32)
    one /= np.linalg.norm(one, axis=1, keepdims=True)
    two /= np.linalg.norm(two, axis=1, keepdims=True)
    exact = one.astype(np.float64) @ two.astype(np.float64).T
    error = np.abs(np.asarray(in_halves(jnp.asarray(one), jnp.asarray(two))) - exact)
    assert np.max(error) < 2**-16  # of the norms, which are 1
    assert np.max(error) > 0


def test_a_kernel_in_halves_stays_close_and_positive(problem):
    x, _ = problem
    with products(in_halves):
        rough = np.asarray(relu_gram(x[:, :D], x[:, :D], dtype="float32"), np.float64)
    fine = np.asarray(relu_gram(x))
    size = np.sqrt(np.diagonal(fine))
    off = ~np.eye(N, dtype=bool)
    assert np.max(np.abs(rough - fine)[off] / np.outer(size, size)[off]) < 1e-3
    with products(in_full):
        again = np.asarray(relu_gram(x, x[:10], dtype="float32"))
    np.testing.assert_allclose(again[20:], fine[20:, :10], rtol=1e-4, atol=1e-4)
