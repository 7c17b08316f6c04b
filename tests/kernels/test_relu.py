# SPDX-License-Identifier: Apache-2.0
import itertools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlazy.data import sphere
from unlazy.kernels import relu_gram
from unlazy.kernels.blocks import block_rows


def naive(x1, x2=None):
    """The formula of the docstring, in float64 NumPy with half angles."""
    x1 = np.asarray(x1, np.float64)
    x2 = x1 if x2 is None else np.asarray(x2, np.float64)
    r1, r2 = np.linalg.norm(x1, axis=1), np.linalg.norm(x2, axis=1)
    u, v = x1 / r1[:, None], x2 / r2[:, None]
    apart = np.linalg.norm(u[:, None] - v[None], axis=2)
    along = np.linalg.norm(u[:, None] + v[None], axis=2)
    theta = 2 * np.arctan2(apart, along)
    return np.outer(r1, r2) * np.cos(theta) * (np.pi - theta) / (2 * np.pi)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 12), d=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_agrees_with_the_formula_for_rows_of_any_norm(n, d, seed):
    rng = np.random.default_rng(seed)
    x1 = rng.standard_normal((n, d)) * rng.uniform(1e-3, 1e3, (n, 1))
    x2 = rng.standard_normal((5, d))
    scale = np.linalg.norm(x1, axis=1)
    H, K = np.asarray(relu_gram(x1)), np.asarray(relu_gram(x1, x2))
    assert H.dtype == K.dtype == np.float64  # x64 is off in this suite
    np.testing.assert_allclose(H / np.outer(scale, scale), naive(x1 / scale[:, None]), atol=1e-14)
    np.testing.assert_allclose(K, naive(x1, x2), atol=1e-12 * scale.max())


@pytest.mark.parametrize("n", [1, 2, 127, 128, 300, 1100])
def test_symmetric_blocks_equal_the_cross_kernel(n, getkey):
    x = sphere(n, 20, key=getkey())
    H = np.asarray(relu_gram(x))
    np.testing.assert_array_equal(H, H.T)
    cross = np.asarray(relu_gram(x, x))
    np.testing.assert_allclose(H, cross, atol=1e-15)


@pytest.mark.parametrize("n", [1, 100, 1000, 4000, 60000])
def test_block_rows_cover_every_row_once(n):
    blocks = block_rows(n)
    assert blocks[0][0] == 0
    assert blocks[-1][1] == n
    assert all(a[1] == b[0] for a, b in itertools.pairwise(blocks))
    assert all(stop > start for start, stop in blocks)


def test_monte_carlo_over_gaussians_converges_to_it(getkey):
    # AR-40. Each entry is a mean of m terms bounded by 1: standard error at most 0.5/sqrt(m), and
    # 5 of them over 21 entries fail with probability 1.2e-5.
    m, x = 200_000, sphere(6, 5, key=getkey())
    active = (jr.normal(getkey(), (m, 5)) @ x.T >= 0).astype(jnp.float32)
    K = (x @ x.T) * (active.T @ active) / m
    assert np.abs(np.asarray(K) - np.asarray(relu_gram(x))).max() < 5 * 0.5 / np.sqrt(m)


def test_power_series_has_the_coefficients_of_the_paper(getkey):
    # AR-7 and AR-41: off the diagonal 200 terms reach rounding.
    x = np.asarray(sphere(6, 5, key=getkey()), np.float64)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    K, total, b = x @ x.T, 0, 1.0
    total = K / 4
    for l in range(1, 200):
        total = total + b / (2 * np.pi * (2 * l - 1)) * K ** (2 * l)
        b *= (2 * l - 1) / (2 * l)
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(np.asarray(relu_gram(x))[off], total[off], atol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_diagonal_is_exactly_one_half_for_unit_rows(dtype, x64):
    # AR-42: through arccos it would be off by up to 2e-4 in float32, 9e-9 in float64.
    x = np.random.default_rng(0).standard_normal((500, 784))
    x = (x / np.linalg.norm(x, axis=1, keepdims=True)).astype(dtype)
    diagonal = np.diagonal(np.asarray(relu_gram(x, dtype=dtype)))
    np.testing.assert_array_equal(diagonal, np.full(500, 0.5, dtype))


def test_matrix_is_positive_semi_definite_with_trace_half_n(getkey):
    H = np.asarray(relu_gram(sphere(300, 10, key=getkey())))
    values = np.linalg.eigvalsh(H)
    assert values[0] > -1e-13
    assert np.trace(H) == pytest.approx(150, rel=1e-6)  # float32 rows are of unit norm to 1e-7
    assert values[-1] <= 150


@pytest.mark.parametrize("scale", [1e-3, 1e-6, 1e-9, 1e-12])
@pytest.mark.parametrize("sign", [1, -1])
def test_nearly_parallel_and_antipodal_rows_keep_their_angle(scale, sign, x64):
    # From the cosine alone the second row's angle would be lost below 1e-8.
    e1, e2 = np.eye(8)[:2]
    x = np.stack([e1, sign * (e1 + scale * e2), e2])
    H = np.asarray(relu_gram(x))
    theta = np.arctan(scale) if sign > 0 else np.pi - np.arctan(scale)
    expected = sign * (np.pi - theta) / (2 * np.pi)
    gap = 0.5 - H[0, 1] if sign > 0 else H[0, 1]
    expected_gap = np.arctan(scale) / (2 * np.pi) if sign > 0 else expected
    assert gap == pytest.approx(expected_gap, rel=1e-3 if scale == 1e-12 else 1e-6)
    assert H[0, 1] == H[1, 0]


def test_duplicate_rows_are_exact(x64):
    x = np.random.default_rng(1).standard_normal((40, 6))
    H = np.asarray(relu_gram(np.concatenate([x, x[:3], 2 * x[3:5]])))
    np.testing.assert_allclose(H[40:43, :40], H[:3, :40], rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(H[43:45, :40], 2 * H[3:5, :40], rtol=1e-13, atol=1e-15)
    assert np.linalg.eigvalsh(H)[:5] == pytest.approx(np.zeros(5), abs=1e-13)


def test_large_and_small_rows_neither_overflow_nor_vanish():
    x = np.array([[3e150, 4e150], [3e-150, 4e-150]])
    np.testing.assert_allclose(np.asarray(relu_gram(x))[0, 1], 12.5, rtol=1e-12)


def test_jit_and_vmap_agree_with_the_plain_call(getkey, x64):
    x = jr.normal(getkey(), (3, 7, 5))
    plain = np.stack([relu_gram(one) for one in x])
    np.testing.assert_allclose(jax.vmap(relu_gram)(x), plain, atol=1e-15)
    np.testing.assert_allclose(jax.jit(relu_gram)(x[0]), plain[0], atol=1e-15)


def test_gradient_is_finite_and_agrees_with_differences(getkey, x64):
    # AR-101: through arccos the diagonal would give nan.
    x, direction = jr.normal(getkey(), (2, 6, 4))
    weights = jr.normal(getkey(), (6, 6))

    def value(t):
        return jnp.sum(weights * relu_gram(x + t * direction))

    slope = jax.grad(value)(0.0)
    numeric = (value(1e-6) - value(-1e-6)) / 2e-6
    assert float(slope) == pytest.approx(float(numeric), rel=1e-7)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.ones(3), r"`x1` must have shape \(n, d\)"),
        (np.ones((0, 3)), r"`x1` must have shape \(n, d\)"),
        (np.array([[1.0, np.nan], [0.0, 1.0]]), "`x1` must be finite, got nan or inf in row 0"),
        (np.array([[1.0, 0.0], [0.0, 0.0]]), "`x1` must have no row of zeros, got zeros in row 1"),
    ],
)
def test_bad_inputs_get_one_clear_error(x, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        relu_gram(x)


def test_mismatched_columns_and_dtypes_are_named(no_shape_checker):
    with pytest.raises(ValueError, match="same number of columns"):
        relu_gram(np.ones((2, 3)), np.ones((2, 4)))
    with pytest.raises(ValueError, match="`dtype` must be float32 or float64"):
        relu_gram(np.ones((2, 3)), dtype="float16")


def test_many_nearly_parallel_rows_are_repaired_in_bounded_pieces(x64):
    # All 300 * 299 / 2 pairs are near; gathered at once at n = 1000, d = 784 they took 9 GB.
    x = 1 + 1e-4 * np.random.default_rng(2).standard_normal((300, 30))
    np.testing.assert_allclose(np.asarray(relu_gram(x)), naive(x), rtol=1e-12)


def test_gradient_survives_duplicate_rows(getkey, x64):
    x = jr.normal(getkey(), (4, 3))
    gradient = jax.grad(lambda x: jnp.sum(relu_gram(x)))(jnp.concatenate([x, x[:1]]))
    assert bool(jnp.isfinite(gradient).all())


@pytest.mark.parametrize(
    ("scale", "dtype"), [(1e200, "float64"), (1e-200, "float64"), (1e30, "float32")]
)
def test_rows_out_of_the_range_of_the_dtype_are_refused(scale, dtype):
    with pytest.raises(ValueError, match="`x1` must have rows whose squared norm"):
        relu_gram(scale * np.eye(2), dtype=dtype)


def test_lists_and_integers_are_accepted(no_shape_checker):
    np.testing.assert_array_equal(np.asarray(relu_gram([[1, 0], [0, 2]])), np.diag([0.5, 2.0]))  # pyright: ignore[reportArgumentType]  # users pass lists
