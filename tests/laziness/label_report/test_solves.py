# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.laziness.label_report import solves
from unlazy.laziness.label_report.solves import solve_for_labels


def problem(n=300, d=20, classes=1):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((n, d))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = np.sign(x[:, :classes] + 0.1 * rng.standard_normal((n, classes)))
    return x, y - y.mean(axis=0)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("d", [3, 20])
def test_factorisations_give_what_the_eigendecomposition_gives(classes, d):
    x, y = problem(d=d, classes=classes)
    dense, factored = solve_for_labels(x, y), solve_for_labels(x, y, largest_eigen=10)
    assert factored.energy == pytest.approx(dense.energy, rel=1e-9)
    assert factored.shuffled_energy == pytest.approx(dense.shuffled_energy, rel=1e-9)
    assert factored.ridge == dense.ridge
    # In float32, at a condition number of 1e4 to 1e5.
    np.testing.assert_allclose(factored.surprises, dense.surprises, atol=1e-3)
    np.testing.assert_allclose(factored.costs, dense.costs, rtol=1e-2)
    largest = dense.eigenvalues[0]  # to which the tolerance of the leading ones is relative
    np.testing.assert_allclose(
        factored.eigenvalues, dense.eigenvalues[:50], rtol=0, atol=1e-3 * largest
    )
    np.testing.assert_allclose(factored.steps, dense.steps, rtol=0.02)


def test_iterations_give_what_a_factorisation_gives(monkeypatch):
    x, y = problem()
    dense = solve_for_labels(x, y)
    monkeypatch.setattr(solves, "_LARGEST_EXACT", 10)
    found = solve_for_labels(x, y, largest_eigen=10)
    assert found.energy == pytest.approx(dense.energy, rel=1e-8)
    # The error is one standard error: five of them.
    error = abs(found.shuffled_energy / dense.shuffled_energy - 1)
    assert 0 < error < 5 * found.shuffled_error < 0.2


def test_progress_rises_to_the_end():
    x, y = problem(100)
    for largest in (10, 200):
        seen = []
        solve_for_labels(x, y, lambda done, _: seen.append(done), largest_eigen=largest)  # noqa: B023
        assert seen == sorted(seen)
        assert seen[-1] == 1000


def test_what_does_not_fit_is_refused_with_a_number_that_does(monkeypatch):
    monkeypatch.setattr(solves, "available_memory", lambda: 10**9)
    x = np.random.default_rng(0).standard_normal((9000, 2))
    with pytest.raises(ValueError, match=r"9000 distinct rows, .* Use most_rows=8000"):
        solve_for_labels(x, x[:, :1])
