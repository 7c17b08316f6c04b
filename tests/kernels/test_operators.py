# SPDX-License-Identifier: Apache-2.0
import functools
import math
import re

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.core.errors import UnlazyWarning
from unlazy.kernels import (
    empirical_ntk,
    empirical_ntk_traced,
    empirical_operator,
    operator,
    relu_gram,
)
from unlazy.kernels.tiles import Tiles
from unlazy.labels import energy

MEMORIES = [
    1,
    60_000,
    150_000,
    10**9,
]  # tiles of 16; float32 fits (n = 100); all just fits; all fits


def laplace(x1, x2=None):
    """A user's kernel: plain jnp, as they would write it."""
    x2 = x1 if x2 is None else x2
    square = jnp.sum((x1[:, None, :] - x2[None, :, :]) ** 2, axis=-1)
    return jnp.exp(-jnp.sqrt(square) / 2)


def sample(n=100, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)), rng.standard_normal((n, 3))


def dense(x):
    return np.exp(-np.sqrt(np.sum((x[:, None] - x[None]) ** 2, axis=-1)) / 2)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("n", [1, 16, 17, 100])
def test_products_entries_and_diagonal_are_those_of_the_dense_matrix(n, memory):
    x, V = sample(n)
    H, K = operator(laplace, x, memory=memory), dense(x)
    assert H.shape == (n, n)
    np.testing.assert_allclose(H.matmat(V), K @ V, atol=1e-12)
    np.testing.assert_allclose(H.matvec(V[:, 0]), K @ V[:, 0], atol=1e-12)
    np.testing.assert_allclose(H.diagonal(), np.diagonal(K), atol=1e-14)
    assert H.matmat(V).dtype == H.diagonal().dtype == np.float64


def test_the_matrix_product_and_the_array_are_those_of_the_dense_matrix():
    x, V = sample(30)
    H, K = operator(laplace, x), dense(x)
    for sides in (V, V[:, 0], jnp.asarray(V)):
        np.testing.assert_allclose(H @ sides, K @ np.asarray(sides), atol=1e-6)
        np.testing.assert_allclose(sides.T @ H, np.asarray(sides).T @ K, atol=1e-6)
    assert (H @ V).shape == (30, 3)
    np.testing.assert_allclose(np.asarray(H), K, atol=1e-14)
    assert np.asarray(H, np.float32).dtype == np.float32


def test_the_array_of_a_matrix_beyond_the_memory_is_refused(no_shape_checker):
    H = operator(laplace, sample()[0], memory=1000)
    with pytest.raises(ValueError, match="`memory` must be at least"):
        np.asarray(H)
    with pytest.raises(ValueError, match=r"`V` must have shape"):
        H @ np.ones((3, 2))


def test_outputs_in_columns_are_told_in_which_order_they_are_rows(no_shape_checker):
    def f(w, x):
        return jnp.tanh(x @ w)

    x, w = np.random.default_rng(0).standard_normal((6, 3)), np.eye(3, 2)
    H = empirical_operator(f, w, x)
    labels = np.random.default_rng(1).standard_normal((6, 2))
    for call in (lambda: energy(H, labels), lambda: H.solve(labels), lambda: H @ labels):
        with pytest.raises(ValueError, match=r"`[yV]` must have shape \(12,\).*\.reshape\(-1\)"):
            call()
    kernel = np.asarray(empirical_ntk(f, w, x))  # samples, samples, outputs, outputs
    expected = np.einsum("ijab,jb->ia", kernel, labels)
    np.testing.assert_allclose((H @ labels.reshape(-1)).reshape(6, 2), expected, atol=1e-12)


def test_operators_print_in_a_line(no_shape_checker):
    def f(w, x):
        return jnp.tanh(x @ w)

    x = sample(30)[0]
    assert repr(operator(functools.partial(relu_gram, dtype="float64"), x, memory=10**6)) == (
        "KernelOperator(30 x 30, relu_gram of samples of shape (30, 4), memory 1e+06 bytes)"
    )
    told = str(empirical_operator(f, np.eye(4, 2), x))
    assert told.startswith("KernelOperator(60 x 60, empirical_ntk of samples of shape (30, 4)")
    assert "\n" not in told


def test_blocks_are_taken_by_slice_number_or_list():
    x, _ = sample(30)
    H, K = operator(laplace, x), dense(x)
    rows, columns = [3, 1, 29], slice(5, 20)
    np.testing.assert_allclose(H.block(rows, columns), K[rows][:, columns], atol=1e-14)
    np.testing.assert_allclose(H.block(np.array([2]), [2]), K[[2]][:, [2]], atol=1e-14)
    np.testing.assert_allclose(H.take([4, 2]).dense(), K[np.ix_([4, 2], [4, 2])], atol=1e-14)
    assert H.block(rows, columns).dtype == jnp.float64


@pytest.mark.parametrize("row", [8, -9, 100, -100])
def test_a_row_out_of_range_is_refused_and_not_the_nearest_one(row, no_shape_checker):
    H = operator(laplace, sample(8)[0])
    for rows in ([row], np.array([0, row]), jnp.array([row])):
        with pytest.raises(ValueError, match=rf"`rows` must hold row numbers .*, got {row} among"):
            H.take(rows)
        with pytest.raises(ValueError, match=rf"`rows` must hold .*, got {row} among"):
            H.block(rows, [0])
        with pytest.raises(ValueError, match=rf"`columns` must hold .*, got {row} among"):
            H.block([0], rows)


def test_rows_from_the_end_and_masks_are_taken():
    x, _ = sample(8)
    H, mask = operator(laplace, x), np.arange(8) % 3 == 0
    np.testing.assert_allclose(H.take([-1, -8]).dense(), dense(x[[7, 0]]), atol=1e-14)
    np.testing.assert_allclose(H.take(mask).dense(), dense(x[mask]), atol=1e-14)


def test_the_dense_matrix_is_there_when_it_fits_and_refused_when_not(no_shape_checker):
    x, _ = sample(40)
    np.testing.assert_allclose(operator(laplace, x).dense(), dense(x), atol=1e-14)
    with pytest.raises(ValueError, match=r"`memory` must be at least 1.463e\+04 bytes"):
        operator(laplace, x, memory=1000).dense()


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize(
    ("memory", "method"),
    list(zip(MEMORIES, ["conjugate-gradients", "float32", "cholesky", "cholesky"], strict=True)),
)
def test_every_memory_gives_the_same_solution(memory, method, ridge):
    x, y = sample()
    expected = np.linalg.solve(dense(x) + ridge * np.eye(100), y)
    solution = operator(laplace, x, memory=memory).solve(y, ridge=ridge)
    assert solution.method == method
    assert solution.converged
    assert not solution.singular
    assert solution.residual <= 1e-10
    np.testing.assert_allclose(solution.value, expected, rtol=1e-7, atol=1e-8)
    assert solution.energy == pytest.approx(np.sum(y * expected), rel=1e-11)


@pytest.mark.parametrize("method", ["cholesky", "float32", "conjugate-gradients"])
def test_methods_agree_on_the_relu_kernel_and_report_progress(method):
    x, y = sample(60, 5)
    seen = []
    H = operator(relu_gram, x, memory=10**8)
    solution = H.solve(y[:, 0], method=method, progress=lambda k, total: seen.append((k, total)))
    expected = np.linalg.solve(np.asarray(relu_gram(x)), y[:, 0])
    assert solution.value.shape == (60,)
    np.testing.assert_allclose(solution.value, expected, rtol=1e-6, atol=1e-7)
    assert seen
    assert all(1 <= k <= total for k, total in seen)


@pytest.mark.parametrize(("method", "itemsize"), [("cholesky", 8), ("float32", 4)])
def test_a_factorisation_beyond_the_memory_is_refused_with_the_least(method, itemsize):
    x, y = sample()
    least = math.ceil(itemsize * 100**2 * 8 / 7)
    message = re.escape(f"at least {least:.4g} bytes for method='{method}' with 100 samples")
    with pytest.raises(ValueError, match=message):
        operator(laplace, x, memory=least - 10).solve(y, method=method)
    assert operator(laplace, x, memory=least + 10).solve(y, method=method).converged


def test_the_energy_is_of_second_order_in_the_residual():
    x, y = sample()
    exact = np.sum(y * np.linalg.solve(dense(x), y))
    solution = operator(laplace, x, memory=2000).solve(y, tolerance=1e-4)
    assert 1e-8 < solution.residual <= 1e-4
    plain = np.sum(y * solution.value)
    assert abs(solution.energy / exact - 1) < 1e-7
    assert abs(solution.energy / exact - 1) < 0.1 * abs(plain / exact - 1)
    assert solution.energy <= exact


@pytest.mark.parametrize("method", ["cholesky", "float32", "conjugate-gradients"])
def test_the_path_for_accelerators_gives_the_same(method, monkeypatch):
    monkeypatch.setattr(Tiles, "on_host", property(lambda _: False))
    x, y = sample()
    H = operator(laplace, x, memory=200_000)
    assert len(H.tiles.spans()) > 4
    expected = np.linalg.solve(dense(x) + 0.1 * np.eye(100), y)
    solution = H.solve(y, ridge=0.1, method=method)
    assert solution.converged
    assert solution.method == method
    np.testing.assert_allclose(solution.value, expected, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(H.matmat(y), dense(x) @ y, atol=1e-12)
    np.testing.assert_allclose(H.dense(), dense(x), atol=1e-14)


@pytest.mark.parametrize("memory", [1, 10**9])
def test_an_impossible_system_is_reported_with_its_parallel_rows(memory):
    x, y = sample(30)
    x = np.concatenate([x, x[:2]])
    y = np.concatenate([y, -y[:2]])
    with pytest.warns(UnlazyWarning, match="not converged.*singular: rows 30 and 31 are parallel"):
        solution = operator(laplace, x, memory=memory).solve(y)
    assert not solution.converged
    assert solution.residual > 1e-3
    assert np.all(np.isfinite(solution.value))


def sigmoid(x1, x2=None):
    """No kernel: its smallest eigenvalue on a normal sample is near minus its largest."""
    return jnp.tanh(x1 @ (x1 if x2 is None else x2).T - 1)


def negative(x1, x2=None):
    return -laplace(x1, x2)


@pytest.mark.parametrize("kernel", [sigmoid, negative])
@pytest.mark.parametrize("memory", [1, 20_000, 10**9])
@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_a_kernel_that_is_not_semi_definite_is_refused_by_every_method(
    kernel, memory, ridge, recwarn
):
    x, y = sample(60, 7)
    H = operator(kernel, x, memory=memory)
    with pytest.raises(ValueError, match="`kernel` must be positive semi-definite") as caught:
        H.solve(y, ridge=ridge)
    least = np.linalg.eigvalsh(H.matmat(np.eye(60)) + ridge * np.eye(60))[0]
    told = re.search(r"at most (-[\d.]+)", str(caught.value))
    assert told is not None
    assert least * 1.001 - 1e-3 <= float(told[1]) < 0
    assert not recwarn.list  # rows are not called parallel


def test_the_energy_and_logdet_of_what_is_no_kernel_are_refused(getkey):
    x, y = sample(60, 7)
    H = operator(sigmoid, x)
    for call in (lambda: energy(H, y), lambda: H.logdet(key=getkey())):
        with pytest.raises(ValueError, match="`kernel` must be positive semi-definite"):
            call()


def test_a_singular_but_consistent_system_is_solved():
    x, y = sample(30)
    x, y = np.concatenate([x, x[:2]]), np.concatenate([y, y[:2]])
    solution = operator(laplace, x, memory=1).solve(y)
    assert solution.converged
    alone = np.sum(y[:30] * np.linalg.solve(dense(x[:30]), y[:30]))
    assert solution.energy == pytest.approx(alone, rel=1e-8)


@pytest.mark.parametrize("memory", [1, 10**9])
def test_top_eigenvalues_are_those_of_the_dense_matrix(memory, getkey):
    x, _ = sample()
    eigen = operator(laplace, x, memory=memory).top_eigen(4, key=getkey())
    values = np.linalg.eigvalsh(dense(x))[::-1]
    np.testing.assert_allclose(eigen.values, values[:4], rtol=1e-10)
    assert np.all(np.abs(eigen.values - values[:4]) <= eigen.errors + 1e-12)
    assert eigen.converged


def test_logdet_is_exact_when_it_fits_and_within_its_error_when_not(getkey):
    # 6 standard errors from 16 probes: failure probability about 1e-4, with a fixed key.
    x, _ = sample()
    exact = np.linalg.slogdet(dense(x))[1]
    assert operator(laplace, x).logdet(key=getkey()).value == pytest.approx(exact, rel=1e-12)
    estimate = operator(laplace, x, memory=1000).logdet(key=getkey())
    assert abs(estimate.value - exact) < 6 * estimate.standard_error
    assert 0 < estimate.standard_error < 0.2 * abs(exact)


def test_traces_are_exact_or_within_their_error(getkey):
    # 6 standard errors, as above.
    x, _ = sample()
    H = operator(laplace, x, memory=1000)
    assert H.trace(key=getkey()).value == pytest.approx(100)
    assert H.trace(key=getkey()).standard_error == 0
    inverse = H.trace(np.reciprocal, key=getkey())
    exact = np.trace(np.linalg.inv(dense(x)))
    assert abs(inverse.value - exact) < 6 * inverse.standard_error


@pytest.mark.parametrize("memory", [1000, 10**9])
def test_functions_of_a_singular_kernel_are_numbers(memory, getkey):
    # 6 standard errors, as above.
    x, _ = sample(30)
    twice = operator(laplace, np.concatenate([x, x]), memory=memory)
    root = twice.trace(np.sqrt, key=getkey())
    exact = np.sum(np.sqrt(2 * np.linalg.eigvalsh(dense(x))))
    assert abs(root.value - exact) < 6 * root.standard_error
    assert twice.trace(np.reciprocal, key=getkey()).value == np.inf
    assert twice.logdet(key=getkey()).value == -np.inf


def test_nothing_is_rounded_to_float32_though_x64_is_off():
    assert jnp.zeros(()).dtype == jnp.float32
    x, y = sample(20)
    x = 1 + 1e-9 * x  # in float32 all rows would be the same
    solution = operator(laplace, x).solve(y, ridge=1e-3)
    assert solution.converged
    gap = -math.expm1(-np.linalg.norm(x[0] - x[1]) / 2)
    entry = np.asarray(operator(laplace, x).block([0], [1]))[0, 0]
    assert 1 - entry == pytest.approx(gap, rel=1e-5)


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (lambda x1, x2=None: laplace(x1, x2).astype(jnp.float16), "must give float64.*got float16"),
        (lambda x1, x2=None: laplace(x1, x2).astype(jnp.int32), "must give float64.*got int32"),
        (lambda x1, _=None: x1 @ x1.T, r"`kernel` must give a matrix of shape \(2, 1\)"),
        (lambda x1, _=None: jnp.sum(x1, axis=1), r"got shape \(2,\)"),
    ],
)
def test_a_kernel_that_does_not_fit_is_named(kernel, message):
    with pytest.raises(ValueError, match=message):
        operator(kernel, np.eye(4))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda H: H.solve(np.ones(3)), r"`y` must have shape \(4,\) or \(4, c\)"),
        (lambda H: H.solve(np.ones(4), ridge=-1.0), "`ridge` must be >= 0"),
        (lambda H: H.solve(np.ones(4), tolerance=0.0), "`tolerance` must be a positive"),
        (lambda H: H.solve(np.ones(4), method="choleski"), "Did you mean 'cholesky'"),
        (lambda H: H.top_eigen(5, key=jr.key(0)), "`k` must be at most n=4"),
        (lambda H: H.matvec(np.full(4, np.nan)), "`v` must be finite"),
    ],
)
def test_bad_arguments_are_named(call, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        call(operator(laplace, np.eye(4)))


@pytest.mark.parametrize("x", [np.zeros((0, 2)), np.ones(3), np.array([[np.nan]])])
def test_bad_inputs_are_named(x, no_shape_checker):
    with pytest.raises(ValueError, match="`x` must"):
        operator(laplace, x)


def test_a_changed_closure_changes_the_products_of_an_operator():
    alpha = 1.0

    def f(w, x):
        return alpha * jnp.tanh(x @ w)

    def plain(x1, x2=None):
        return alpha**2 * x1 @ (x1 if x2 is None else x2).T

    x, w = np.random.default_rng(0).standard_normal((6, 3)), np.ones((3, 2))
    kernels = (functools.partial(empirical_ntk_traced, f, w), plain)
    operators = [operator(kernel, x) for kernel in kernels]
    before = [H.matvec(np.ones(6)) for H in operators]
    alpha = 10.0
    for H, old in zip(operators, before, strict=True):
        np.testing.assert_allclose(H.matvec(np.ones(6)), 100 * old, rtol=1e-9)
    for kernel, old in zip(kernels, before, strict=True):
        np.testing.assert_allclose(operator(kernel, x).matvec(np.ones(6)), 100 * old, rtol=1e-9)
