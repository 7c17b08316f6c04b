# SPDX-License-Identifier: Apache-2.0
"""Products of few rows and many columns are the products, in parts and in halves."""

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.kernels.empirical import long_products
from unlazy.kernels.empirical.long_products import long_product, product_of_halves

BOUND = 2.0**-16 * (1 + 2.0**-8)  # each factor to 2^-17 of itself


@pytest.fixture
def on_gpu(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


def gap_and_scale(K, one, two):
    """The error of each entry, and what bounds it: the sum of the products' absolute values."""
    one, two = (np.asarray(g, np.float64).reshape(len(g), -1) for g in (one, two))
    return np.abs(np.asarray(K, np.float64) - one @ two.T), np.abs(one) @ np.abs(two).T


@pytest.mark.parametrize(("rows", "columns"), [(3, 10**5), (40, 90001), (2, 8192), (5, 100)])
def test_a_long_product_in_parts_is_the_product(rows, columns, on_gpu, getkey):
    one, two = (jr.normal(getkey(), (count, columns)) for count in (rows, rows + 1))
    parts = long_products._parts(one, two, 8192)
    assert 1 <= parts <= max(1, columns // 8192)
    assert columns < 2 * 8192 or parts > columns // 4 // 8192
    exact = np.asarray(one, np.float64) @ np.asarray(two, np.float64).T
    np.testing.assert_allclose(long_product(one, two), exact, atol=3e-6 * columns**0.5 * 4)


@pytest.mark.parametrize("columns", [100, 4096, 8192, 8193, 90001])
def test_parts_that_follow_each_other_are_the_product(columns, getkey):
    one, two = (jr.normal(getkey(), (rows, columns)) for rows in (3, 5))
    exact = np.asarray(one, np.float64) @ np.asarray(two, np.float64).T
    np.testing.assert_allclose(long_product(one, two), exact, atol=3e-6 * columns**0.5 * 4)


def spread(key, shape):
    """Entries of any size from 1e-15 to 1e15."""
    key_size, key_sign = jr.split(key)
    sizes = 10.0 ** jr.uniform(key_size, shape, minval=-15.0, maxval=15.0)
    return sizes * jr.rademacher(key_sign, shape, jnp.float32)


def worst(key, shape):
    """Entries whose first half is as far from them as it can be, all of one sign."""
    below = 1 + 2.0**-8 - 2.0 ** -jr.randint(key, shape, 10, 20).astype(jnp.float32)
    return below.astype(jnp.float32)


def cancelling(key, shape):
    """Rows whose products are sums of large terms that cancel."""
    half = jr.normal(key, (*shape[:-1], shape[-1] // 2))
    signs = jnp.where(jnp.arange(shape[0]) % 2, -1.0, 1.0)[:, None, None]
    return jnp.concatenate([half, signs * half * (1 + 2.0**-12)], axis=-1)


DATA = {"normal": jr.normal, "spread": spread, "worst": worst, "cancelling": cancelling}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("scale", [1e-16, 1.0, 1e3])
def test_halves_are_off_by_no_more_than_their_bound(name, scale, getkey):
    one, two = (scale * DATA[name](getkey(), (6, 2, 16)) for _ in range(2))
    sums = 32 * 2.0**-23  # the rounding of 32 terms
    for other in (one, two):
        gap, size = gap_and_scale(product_of_halves(one, other), one, other)
        # Below 1e-38 products are rounded to zero.
        assert np.all(gap <= (BOUND + sums) * size + 1e-36)


def test_the_bound_of_halves_is_nearly_met():
    g = jnp.full((1, 1, 1), 1 + 2.0**-8 - 2.0**-16 - 2.0**-17, jnp.float32)
    gap, size = gap_and_scale(product_of_halves(g, g), g, g)
    assert 0.4 * BOUND < gap[0, 0] / size[0, 0] < BOUND


def test_numbers_of_16_bits_are_multiplied_as_they_are(getkey):
    g = jr.randint(getkey(), (5, 1, 4), -(2**15), 2**15).astype(jnp.float32)
    exact = np.asarray(g[:, 0], np.float64) @ np.asarray(g[:, 0], np.float64).T
    np.testing.assert_allclose(product_of_halves(g, g), exact, rtol=2**-22)


def test_a_product_with_itself_is_that_with_its_copy(getkey):
    g = jr.normal(getkey(), (7, 3, 20))
    np.testing.assert_allclose(
        product_of_halves(g, g), product_of_halves(g, g + 0), rtol=1e-6, atol=1e-5
    )


def test_a_gram_matrix_of_halves_has_no_negative_eigenvalue(getkey):
    # Of rank one: its zeros would be about -1e-5 of the trace without the products of low halves.
    g = worst(getkey(), (1, 1, 64)) * jr.uniform(getkey(), (8, 1, 1), minval=0.5, maxval=1.0)
    K = np.asarray(product_of_halves(g, g), np.float64)
    assert np.linalg.eigvalsh(K).min() > -64 * 2.0**-24 * np.trace(K)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_stays_so_in_its_row(bad):
    g = jnp.ones((3, 1, 4)).at[1, 0, 2].set(bad)
    K = np.asarray(product_of_halves(g, g))
    assert np.isfinite(K[::2, ::2]).all()
    assert not np.isfinite(K[1]).any()
    assert not np.isfinite(K[:, 1]).any()


def test_denormal_numbers_give_no_more_than_rounding():
    g = jnp.full((2, 1, 3), 1e-40, jnp.float32).at[0].set(1.0)
    K = np.asarray(product_of_halves(g, g))
    assert abs(K[0, 1]) < 1e-37
    np.testing.assert_allclose(K[0, 0], 3.0, rtol=1e-6)


@pytest.mark.parametrize(
    ("rows", "columns", "dtype", "backend", "in_halves"),
    [
        (200, 4096, "float32", "gpu", True),
        (100, 4096, "float32", "gpu", False),  # few rows
        (200, 1500, "float32", "gpu", False),  # few columns
        (200, 4096, "float64", "gpu", False),
        (200, 4096, "float32", "tpu", False),
        (200, 4096, "float32", "cpu", False),
    ],
)
def test_halves_are_for_long_float32_products_on_a_gpu(rows, columns, dtype, backend, in_halves):
    with jax.enable_x64(dtype == "float64"):
        g = jnp.zeros((rows, columns), dtype)
    assert long_products._pays_in_halves(g, g, backend) == in_halves


def test_a_long_product_of_many_rows_is_one_of_halves(on_gpu, getkey):
    one, two = (jr.normal(getkey(), (128, 5000)) for _ in range(2))
    for other in (one, two):
        gap, size = gap_and_scale(long_product(one, other), one, other)
        assert np.max(gap / size) < BOUND
        assert np.max(gap / size) > 1e-8
