# SPDX-License-Identifier: Apache-2.0
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from jax.tree_util import Partial

from unlazy.linalg import extreme_eigen


def symmetric(values, seed=0):
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    return (Q * values) @ Q.T


def ends(H, steps=100, seed=1):
    with jax.enable_x64(True):
        start = jr.normal(jr.key(seed), (len(H),), jnp.float64)
        return extreme_eigen(Partial(jnp.matmul, jnp.asarray(H)), start, steps=steps)


def test_both_ends_are_those_of_the_dense_matrix_and_the_vectors_are_theirs():
    H = symmetric(np.concatenate([[-3.0], np.linspace(-1, 1, 200), [0.5, 5.0]]))
    eigen = ends(H)
    np.testing.assert_allclose(eigen.values, [-3, 5], rtol=1e-13)
    V = np.asarray(eigen.vectors)
    np.testing.assert_allclose(np.linalg.norm(V, axis=1), 1, rtol=1e-13)
    np.testing.assert_allclose(V @ H, eigen.values[:, None] * V, atol=1e-12)
    assert np.all(eigen.errors < 1e-12)


@pytest.mark.parametrize("steps", [2, 5, 10, 20, 40])
def test_cut_short_the_values_lie_inside_and_the_errors_hold(steps):
    values = np.sort(np.random.default_rng(2).standard_normal(150))
    eigen = ends(symmetric(values), steps)
    assert eigen.products == steps
    assert not eigen.exhausted
    rounding = 8 * np.finfo(float).eps * np.max(np.abs(values))  # of the products
    assert values[0] - rounding <= eigen.values[0] <= eigen.values[1] <= values[-1] + rounding
    nearest = np.min(np.abs(values[None, :] - eigen.values[:, None]), axis=1)
    assert np.all(nearest <= eigen.errors + 1e-13)
    assert np.all(eigen.errors > 1e-13)  # else the bound was not put to the test


def test_the_error_is_the_residual_that_lanczos_knows_without_another_product():
    """|beta_q u_q| from the textbook recurrence in NumPy, BL-30."""
    H, steps = symmetric(np.linspace(-1.0, 2.0, 60)), 12
    with jax.enable_x64(True):
        q = np.asarray(jr.normal(jr.key(1), (60,), jnp.float64))
    Q, alpha, beta = [q / np.linalg.norm(q)], [], []
    for _ in range(steps):
        w = H @ Q[-1]
        alpha.append(w @ Q[-1])
        for v in (*Q, *Q):
            w = w - (w @ v) * v
        beta.append(np.linalg.norm(w))
        Q.append(w / beta[-1])
    off = np.diag(beta[:-1], 1)
    theta, U = np.linalg.eigh(np.diag(alpha) + off + off.T)
    eigen = ends(H, steps)
    np.testing.assert_allclose(eigen.values, theta[[0, -1]], rtol=1e-12)
    np.testing.assert_allclose(eigen.errors, beta[-1] * np.abs(U[-1, [0, -1]]), rtol=1e-9)


def test_an_invariant_space_ends_it_with_the_exact_ends():
    # Three distinct eigenvalues: the Krylov space of any vector has dimension three.
    eigen = ends(symmetric(np.repeat([-2.0, 1.0, 3.0], 20)))
    assert eigen.products == 3
    assert eigen.exhausted
    np.testing.assert_allclose(eigen.values, [-2, 3], rtol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_tiny_matrices_and_the_zero_matrix(n):
    np.testing.assert_allclose(ends(np.diag(np.arange(1.0, n + 1))).values, [1, n], rtol=1e-13)
    zero = ends(np.zeros((n, n)))
    np.testing.assert_array_equal(zero.values, 0)
    np.testing.assert_array_equal(zero.errors, 0)
    assert zero.exhausted


def test_products_that_are_not_finite_are_refused():
    with pytest.raises(ValueError, match="`matvec` must give finite products"):
        ends(np.full((3, 3), np.nan))


def test_a_changed_closure_changes_the_spectrum():
    scale = 1.0

    def matvec(v):
        return scale * v * jnp.array([-1.0, 2.0, 3.0])

    np.testing.assert_allclose(extreme_eigen(matvec, jnp.ones(3)).values, [-1.0, 3.0])
    scale = 2.0
    np.testing.assert_allclose(extreme_eigen(matvec, jnp.ones(3)).values, [-2.0, 6.0])
