# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import krylov_quadrature, top_eigen


def symmetric(values, seed=0):
    Q, _ = np.linalg.qr(np.random.default_rng(seed).standard_normal((len(values), len(values))))
    return (Q * values) @ Q.T


def start(n, columns, seed=1):
    return np.random.default_rng(seed).standard_normal((n, columns))


@pytest.mark.parametrize("max_basis", [20, 400])
def test_top_eigenpairs_are_those_of_the_dense_matrix_also_after_restarts(max_basis):
    H = symmetric(1 / np.arange(1, 121.0))
    eigen = top_eigen(lambda v: H @ v, start(120, 5), 3, max_basis=max_basis)
    assert eigen.converged
    np.testing.assert_allclose(eigen.values, 1 / np.arange(1, 4.0), rtol=1e-12)
    V = eigen.vectors
    np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-12)
    residual = np.linalg.norm(H @ V - V * eigen.values, axis=0)
    np.testing.assert_allclose(eigen.errors, residual, atol=1e-13)


def test_the_error_bounds_hold_and_are_tight_when_cut_short():
    values = np.linspace(1.0, 2.0, 100)
    H = symmetric(values)
    eigen = top_eigen(lambda v: H @ v, start(100, 4), 2, max_iterations=3)
    assert not eigen.converged
    distance = np.array([np.min(np.abs(values - theta)) for theta in eigen.values])
    assert np.all(distance <= eigen.errors)
    # Tight: on a vector spread over two eigenvalues evenly, the bound is the distance itself.
    two = top_eigen(lambda v: np.diag([1.0, -1.0]) @ v, np.ones((2, 1)), 1, max_iterations=1)
    assert two.values[0] == pytest.approx(0, abs=1e-15)
    assert two.errors[0] == pytest.approx(1)


def test_multiple_eigenvalues_are_all_found():
    H = symmetric(np.concatenate([[3.0, 3.0, 3.0], np.linspace(0, 1, 60)]))
    eigen = top_eigen(lambda v: H @ v, start(63, 6), 4)
    np.testing.assert_allclose(eigen.values, [3, 3, 3, 1], atol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tiny_matrices(n):
    H = symmetric(np.arange(1.0, n + 1))
    eigen = top_eigen(lambda v: H @ v, start(n, n), n)
    np.testing.assert_allclose(eigen.values, np.arange(n, 0.0, -1), atol=1e-12)


def total(function):
    return lambda nodes, projections: function(nodes) @ np.sum(projections**2, axis=1)


def test_the_rule_is_exact_up_to_its_degree_and_not_beyond():
    H = symmetric(np.linspace(0.1, 1.0, 50))
    y = start(50, 2)
    rule = krylov_quadrature(lambda v: H @ v, y, total(np.exp), max_basis=8)
    assert len(rule.nodes) == 8  # four steps with a block of two
    for degree in range(10):
        power = np.linalg.matrix_power(H, degree)
        exact = np.sum(y * (power @ y), axis=0)
        error = np.max(np.abs(rule.nodes**degree @ rule.projections**2 / exact - 1))
        assert error < 1e-12 if degree <= 7 else error > 1e-12
    np.testing.assert_allclose(
        rule.vectors @ (rule.nodes[:, None] ** 3 * rule.projections), H @ H @ H @ y, atol=1e-12
    )


def test_a_gauss_rule_of_the_inverse_is_a_lower_bound_that_rises():
    H, y = symmetric(np.geomspace(1e-4, 1.0, 80)), start(80, 1)
    exact = float(np.sum(y * np.linalg.solve(H, y)))
    sizes = (5, 10, 20, 40)
    found = [
        krylov_quadrature(lambda v: H @ v, y, total(np.reciprocal), max_basis=size, tolerance=1e-14)
        for size in sizes
    ]
    energies = [float(total(np.reciprocal)(r.nodes, r.projections)) for r in found]
    assert energies == sorted(energies)
    assert energies[-1] <= exact * (1 + 1e-9)


def test_an_invariant_space_ends_it_exactly():
    H = np.diag([1.0, 2.0, 3.0, 4.0])
    y = np.array([[1.0], [1.0], [0.0], [0.0]])
    rule = krylov_quadrature(lambda v: H @ v, y, total(np.log))
    np.testing.assert_allclose(rule.nodes, [2.0, 1.0], atol=1e-14)
    assert rule.converged
    assert rule.change == 0


def test_a_companion_finds_the_largest_eigenvalue_and_changes_no_weight():
    H = np.diag(np.append(np.linspace(0.1, 1.0, 39), 5.0))
    y = np.append(np.ones(39), 0.0)[:, None]
    rule = krylov_quadrature(lambda v: H @ v, y, total(np.reciprocal), companion=start(40, 1))
    assert rule.nodes[0] == pytest.approx(5, rel=1e-12)
    assert np.sum(rule.projections**2) == pytest.approx(39)
    assert abs(rule.projections[0, 0]) < 1e-10
