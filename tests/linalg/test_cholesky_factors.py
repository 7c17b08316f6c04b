# SPDX-License-Identifier: Apache-2.0
import tracemalloc

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.linalg import cholesky_factors
from unlazy.linalg.cholesky_factors import (
    DeviceCholesky,
    HostCholesky,
    cholesky,
    cholesky_in_place,
)


def random_spd(n, smallest, seed):
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((n, n)))
    values = np.geomspace(smallest, 1.0, n)
    return (Q * values) @ Q.T, rng.standard_normal((n, 2))


def test_solve_and_whiten_agree_with_numpy_in_float64_though_x64_is_off():
    H, y = random_spd(60, 1e-4, seed=0)
    factor = cholesky(H)
    assert factor is not None
    solution = np.asarray(factor.solve(y))
    assert solution.dtype == np.float64
    np.testing.assert_allclose(H @ solution, y, atol=1e-10)
    energy = np.sum(np.asarray(factor.whiten(y)) ** 2)
    assert energy == pytest.approx(np.sum(y * np.linalg.solve(H, y)), rel=1e-10)


@pytest.mark.parametrize("smallest", [1e-2, 1e-6, 1e-10])
def test_smallest_eigenvalue_is_an_upper_estimate_and_close(smallest):
    H, _ = random_spd(80, smallest, seed=1)
    factor = cholesky(H)
    assert factor is not None
    # Neighbouring eigenvalues are a factor (1/smallest)^(1/79) apart: 8 steps blend a few of them.
    assert 0.99 * smallest <= factor.smallest_eigenvalue() <= 1.5 * smallest


def test_an_indefinite_matrix_is_refused():
    assert cholesky(np.diag([1.0, -1.0, 2.0])) is None


def spd(n, seed=0):
    A = np.random.default_rng(seed).standard_normal((n, n))
    return A @ A.T + n * np.eye(n)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("dtype", "accuracy"), [(np.float64, 1e-13), (np.float32, 1e-5)])
def test_factor_and_matrix_share_the_array_they_were_given(order, dtype, accuracy):
    H = spd(50)
    work = np.array(H, dtype, order=order)
    factor = cholesky_in_place(work)
    assert isinstance(factor, HostCholesky)
    assert np.shares_memory(factor.packed, work)
    V = np.random.default_rng(1).standard_normal((50, 3))
    np.testing.assert_allclose(factor.matmat(V), H @ V, rtol=accuracy, atol=100 * accuracy)
    np.testing.assert_allclose(H @ factor.solve(V), V, atol=100 * accuracy)
    logdet = np.sum(np.log(factor.pivots()))
    assert logdet == pytest.approx(np.linalg.slogdet(H)[1], rel=10 * accuracy)
    assert np.min(factor.pivots()) >= np.linalg.eigvalsh(H)[0] * (1 - 1e-5)


@pytest.mark.parametrize(("dtype", "accuracy"), [("float64", 1e-13), ("float32", 1e-5)])
def test_an_array_of_jax_is_used_up_and_factorised_in_its_own_precision(dtype, accuracy):
    H = spd(30)
    with jax.enable_x64(True):
        work = jnp.asarray(H, dtype)
    factor = cholesky_in_place(work)
    assert isinstance(factor, DeviceCholesky)
    assert work.is_deleted()
    assert factor.L.dtype == dtype
    V = np.ones((30, 2))
    np.testing.assert_allclose(H @ factor.solve(V), V, atol=100 * accuracy)
    np.testing.assert_allclose(
        np.sum(np.log(factor.pivots())), np.linalg.slogdet(H)[1], rtol=10 * accuracy
    )


@pytest.mark.parametrize("block", [1, 7, 50])
def test_blocks_of_any_width_give_the_same(block, monkeypatch):
    monkeypatch.setattr("unlazy.linalg.cholesky_factors._BLOCK", block)
    H, V = spd(50), np.random.default_rng(1).standard_normal((50, 3))
    factor = cholesky_in_place(H.copy())
    assert isinstance(factor, HostCholesky)
    np.testing.assert_allclose(np.tril(factor.packed), np.linalg.cholesky(H), atol=1e-12)
    np.testing.assert_allclose(factor.matmat(V), H @ V, atol=1e-11)
    np.testing.assert_allclose(factor.solve(V), np.linalg.solve(H, V), atol=1e-13)


def test_an_indefinite_matrix_has_no_factor():
    assert cholesky_in_place(np.diag([1.0, -1.0])) is None
    with jax.enable_x64(True):
        assert cholesky_in_place(jnp.diag(jnp.array([1.0, -1.0]))) is None


def test_one_by_one():
    factor = cholesky_in_place(np.array([[4.0]]))
    assert isinstance(factor, HostCholesky)
    assert factor.solve(np.array([[2.0]])) == 0.5
    assert factor.matmat(np.array([[2.0]])) == 8


def test_what_a_factorisation_takes_beside_its_matrix_does_not_grow():
    H = spd(2600, seed=3)
    logdet = np.linalg.slogdet(H)[1]
    tracemalloc.start()
    factor = cholesky_in_place(H)
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert factor is not None
    # Some rows of a panel, a product and a block; a whole panel and its product would be 21 MB.
    assert taken < 4.5 * 1024 * 512 * 8
    assert np.sum(np.log(factor.pivots())) == pytest.approx(logdet, rel=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 1e-3)])
def test_the_diagonal_of_the_inverse_is_that_of_the_inverse(dtype, tolerance, monkeypatch):
    monkeypatch.setattr(cholesky_factors, "_BLOCK", 32)  # several panels, the last one smaller
    A = np.random.default_rng(0).standard_normal((250, 250))
    H = A @ A.T / 250 + 0.5 * np.eye(250)
    factorised, inverted = [], []
    factor = cholesky_in_place(H.astype(dtype), progress=lambda *of: factorised.append(of))
    assert isinstance(factor, HostCholesky)
    found = factor.inverse_diagonal(lambda *of: inverted.append(of))
    np.testing.assert_allclose(found, np.diagonal(np.linalg.inv(H)), rtol=tolerance)
    for seen in (factorised, inverted):
        assert len(seen) == 8
        assert seen == sorted(seen)
        assert seen[-1] == (100, 100)
