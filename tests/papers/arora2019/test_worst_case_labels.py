# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy import labels
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import relu_gram
from unlazy.papers.arora2019 import worst_labels

RNG = np.random.default_rng(20193)
X = RNG.standard_normal((15, 6)) * RNG.uniform(0.5, 2.0, (15, 1))  # rows of unlike norms
H = np.asarray(relu_gram(X))


@pytest.mark.parametrize("norm", [1, 0.3, math.sqrt(15)])
def test_worst_labels_cost_their_square_over_the_smallest_eigenvalue(norm):
    y = worst_labels(H, norm=norm)
    lam0 = np.linalg.eigvalsh(H)[0]
    assert np.linalg.norm(y) == pytest.approx(norm, rel=1e-12)
    np.testing.assert_allclose(H @ y, lam0 * y, atol=1e-12)
    assert labels.energy(H, y) == pytest.approx(norm**2 / lam0, rel=1e-9)
    assert y[np.argmax(np.abs(y))] > 0


def test_no_labels_of_the_same_norm_train_more_slowly_or_cost_more():
    y = worst_labels(H)
    steps = np.array([0, 1, 3, 30, 300])
    flow = KernelDynamics.from_gram(H, y)  # at the rate 1/lambda_max
    worst = flow.residual(steps)
    lam0 = float(flow.eigenvalues[-1])
    np.testing.assert_allclose(worst, (1 - flow.learning_rate * lam0) ** steps, rtol=1e-9)
    for _ in range(20):
        other = RNG.standard_normal(15)
        other /= np.linalg.norm(other)
        assert labels.energy(H, other) < labels.energy(H, y)
        assert np.all(flow.with_labels(other).residual(steps) <= worst * (1 + 1e-12))


def test_float32_is_taken_and_what_cannot_be_is_named(no_shape_checker):
    narrow = worst_labels(H.astype(np.float32), norm=2.0)
    np.testing.assert_allclose(narrow, worst_labels(H, norm=2.0), atol=1e-5)
    assert narrow.dtype == np.float64
    with pytest.raises(ValueError, match="`norm` must be a positive number, got norm=0"):
        worst_labels(H, norm=0.0)
    with pytest.raises(ValueError, match="`H` must be a square Gram matrix"):
        worst_labels(X)
