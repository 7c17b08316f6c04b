# SPDX-License-Identifier: Apache-2.0
import math

import numpy as np
import pytest

from unlazy.core.errors import UnlazyWarning
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import operator, relu_gram


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((150, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, np.stack([np.sign(x[:, 0]), np.sign(x[:, 1] * x[:, 2])], axis=1)


@pytest.mark.parametrize("memory", [1, 10**9])
def test_every_promise_is_kept_without_the_matrix(problem, memory):
    x, y = problem
    H = np.asarray(relu_gram(x))
    flow = KernelDynamics.from_operator(operator(relu_gram, x, memory=memory), y)
    full = KernelDynamics.from_gram(H, y)
    assert flow.learning_rate == pytest.approx(full.learning_rate, rel=1e-10)
    steps = [0, 1, 2, 5, 10, 100, 1000, 10**5, 10**7]
    np.testing.assert_allclose(flow.loss(steps), full.loss(steps), atol=1e-6 * float(full.loss(0)))
    np.testing.assert_allclose(flow.residual([0, 3]), full.residual([0, 3]), rtol=1e-10)
    assert flow.movement(math.inf) == pytest.approx(full.movement(math.inf), rel=1e-6)
    assert flow.movement(50) == pytest.approx(full.movement(50), rel=1e-8)
    assert abs(flow.steps_to(0.1) - full.steps_to(0.1)) <= 1
    np.testing.assert_allclose(flow.outputs(20), full.outputs(20), atol=1e-6)
    np.testing.assert_allclose(flow.outputs(20, H[:3]), full.outputs(20, H[:3]), atol=1e-6)
    assert flow.energies.sum() == pytest.approx(1)


def test_the_first_steps_are_exact_in_a_small_space_which_is_warned_of(problem):
    # Ten Lanczos steps integrate polynomials of degree 19, the loss up to step 9.
    x, y = problem
    with pytest.warns(UnlazyWarning, match="Krylov space of dimension 20 is too small"):
        flow = KernelDynamics.from_operator(operator(relu_gram, x), y[:, 0], max_basis=20)
    full = KernelDynamics.from_gram(relu_gram(x), y[:, 0])
    assert flow.error > 0
    rate = full.learning_rate
    exact = KernelDynamics.from_gram(relu_gram(x), y[:, 0], learning_rate=rate)
    np.testing.assert_allclose(flow.loss(range(10)), exact.loss(range(10)), rtol=1e-9)
    assert abs(flow.loss(10**4) / exact.loss(10**4) - 1) > 1e-6


def test_other_labels_need_their_own_space(problem):
    x, y = problem
    flow = KernelDynamics.from_operator(operator(relu_gram, x), y[:, 0], tolerance=1e-3)
    with pytest.raises(ValueError, match="`with_labels` must have all eigenvectors"):
        flow.with_labels(y[:, 1])


def test_a_learning_rate_above_the_limit_warns_though_the_labels_do_not_feel_it():
    # The labels lie on small eigenvalues only; lambda_max is 1.
    x = np.diag(np.sqrt(np.append(1.0, np.linspace(0.1, 0.2, 19))))

    def linear(x1, x2=None):
        return x1 @ (x1 if x2 is None else x2).T

    y = np.append(0.0, np.ones(19))
    H = operator(linear, x)
    assert KernelDynamics.from_operator(H, y).learning_rate == pytest.approx(1)
    with pytest.warns(UnlazyWarning, match="above 2/lambda_max=2"):
        KernelDynamics.from_operator(H, y, learning_rate=3.0)


def test_a_single_sample_works():
    flow = KernelDynamics.from_operator(operator(relu_gram, np.ones((1, 2))), np.ones(1))
    assert flow.loss(0) == pytest.approx(0.5)
    assert flow.loss(1) == pytest.approx(0)
