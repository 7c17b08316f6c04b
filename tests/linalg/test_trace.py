# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from unlazy.linalg import trace_estimate


@pytest.mark.parametrize(("function", "seed"), [(np.log, 0), (np.reciprocal, 1), (np.sqrt, 2)])
def test_estimates_lie_within_their_standard_error(function, seed):
    # 5 standard errors from 40 probes (t-distributed): failure probability about 1e-5, fixed seed.
    rng = np.random.default_rng(seed)
    Q, _ = np.linalg.qr(rng.standard_normal((150, 150)))
    values = np.geomspace(1e-2, 1.0, 150)
    H = (Q * values) @ Q.T
    estimate = trace_estimate(function, lambda v: H @ v, rng.choice([-1.0, 1.0], (150, 40)))
    exact = np.sum(function(values))
    assert abs(estimate.value - exact) < 5 * estimate.standard_error
    # The spread is that of Hutchinson's estimator: Var = 2 sum_{i != j} f(H)_ij^2 for one probe.
    f = (Q * function(values)) @ Q.T
    spread = np.sqrt(2 * (np.sum(f**2) - np.sum(np.diagonal(f) ** 2)) / 40)
    assert estimate.standard_error == pytest.approx(spread, rel=0.5)


def test_a_diagonal_matrix_has_no_spread():
    H = np.diag([1.0, 2.0, 3.0])
    signs = np.random.default_rng(0).choice([-1.0, 1.0], (3, 4))
    estimate = trace_estimate(np.square, lambda v: H @ v, signs)
    assert estimate.value == pytest.approx(14)
    assert estimate.standard_error < 1e-12


def low_rank(seed=0, n=60, rank=20):
    """A matrix of a singular kernel; its zero eigenvalues come out at rounding, of both signs."""
    F = np.random.default_rng(seed).standard_normal((n, rank))
    H = F @ F.T
    assert np.linalg.eigvalsh(H)[0] < 0
    return H, np.random.default_rng(seed + 1).choice([-1.0, 1.0], (n, 8))


@pytest.mark.parametrize("function", [np.sqrt, lambda v: v**1.5, lambda v: v * np.log(v + 1)])
def test_rounding_below_zero_is_zero_to_the_function(function):
    # 6 standard errors of 8 probes: failure probability about 5e-4, fixed seed.
    H, signs = low_rank()
    estimate = trace_estimate(function, lambda v: H @ v, signs)
    exact = np.sum(function(np.linalg.eigvalsh(H)[-20:]))
    assert abs(estimate.value - exact) < 6 * estimate.standard_error
    # All of the Krylov space is there, so each probe is z^T f(H) z to rounding.
    values, vectors = np.linalg.eigh(H)
    f = (vectors * function(np.where(values > 1e-10, values, 0.0))) @ vectors.T
    assert estimate.value == pytest.approx(np.mean(np.sum(signs * (f @ signs), axis=0)), rel=1e-10)


@pytest.mark.parametrize(("function", "limit"), [(np.log, -np.inf), (np.reciprocal, np.inf)])
def test_what_is_infinite_at_zero_has_an_infinite_trace(function, limit):
    H, signs = low_rank()
    estimate = trace_estimate(function, lambda v: H @ v, signs)
    assert (estimate.value, estimate.standard_error) == (limit, 0.0)


def test_an_eigenvalue_without_part_in_the_probes_counts_for_nothing():
    H = np.diag([0.0, 1.0, 4.0])
    probes = np.array([[0.0, 0.0], [1.0, -1.0], [1.0, 1.0]])
    assert trace_estimate(np.reciprocal, lambda v: H @ v, probes).value == pytest.approx(1.25)


def test_an_indefinite_matrix_is_named():
    H = np.diag([1.0, 2.0, -0.01])
    with pytest.raises(ValueError, match=r"positive semi-definite.* eigenvalues from -0.01 to 2"):
        trace_estimate(np.sqrt, lambda v: H @ v, np.ones((3, 2)))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda _: 1.0, r"elementwise, got an array of shape \(\) for one of shape \(\d,\)"),
        (lambda v: np.where(v > 3, np.nan, v), "a number at every eigenvalue, got nan at 4"),
    ],
)
def test_a_function_that_does_not_fit_is_named(function, message):
    H, signs = np.diag([1.0, 4.0]), np.array([[1.0, 1.0], [1.0, -1.0]])
    with pytest.raises(ValueError, match=message):
        trace_estimate(function, lambda v: H @ v, signs)
