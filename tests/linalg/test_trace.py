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
