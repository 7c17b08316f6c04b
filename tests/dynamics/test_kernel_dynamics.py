# SPDX-License-Identifier: Apache-2.0
import math

import jax.random as jr
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unlazy import data, labels
from unlazy.core.errors import UnlazyWarning
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import relu_gram


@pytest.fixture
def problem(getkey):
    x = data.sphere(40, 6, key=getkey())
    return np.asarray(relu_gram(x)), np.asarray(data.random_labels(40, key=getkey()), np.float64)


def descend(H, y, lr, steps):
    """The recursion itself, as an independent route."""
    u, outputs = np.zeros_like(y), []
    for _ in range(steps + 1):
        outputs.append(u)
        u = u - lr * H @ (u - y)
    return np.array(outputs)


@pytest.mark.parametrize("factor", [0.3, 1.0, 1.9])
def test_closed_form_equals_the_recursion(problem, factor):
    H, y = problem
    flow = KernelDynamics.from_gram(H, y, learning_rate=factor / np.linalg.eigvalsh(H)[-1])
    steps = [0, 1, 2, 7, 50]
    outputs = descend(H, y, flow.learning_rate, 50)[steps]
    residual = np.linalg.norm(outputs - y, axis=1)
    np.testing.assert_allclose(flow.residual(steps), residual, rtol=1e-10)
    np.testing.assert_allclose(flow.loss(steps), residual**2 / 2, rtol=1e-10)
    for step, u in zip(steps, outputs, strict=True):
        np.testing.assert_allclose(flow.outputs(step), u, atol=1e-11)


def test_several_label_columns_add_up(problem):
    H, y = problem
    z = np.roll(y, 3)
    both = KernelDynamics.from_gram(H, np.stack([y, z], axis=1))
    one, other = KernelDynamics.from_gram(H, y), KernelDynamics.from_gram(H, z)
    np.testing.assert_allclose(both.loss([0, 9]), one.loss([0, 9]) + other.loss([0, 9]))
    np.testing.assert_allclose(both.outputs(9)[:, 1], other.outputs(9), atol=1e-12)
    assert both.movement(9) ** 2 == pytest.approx(one.movement(9) ** 2 + other.movement(9) ** 2)


def test_default_learning_rate_is_one_over_the_largest_eigenvalue(problem):
    H, y = problem
    flow = KernelDynamics.from_gram(H, y)
    assert flow.learning_rate == pytest.approx(1 / np.linalg.eigvalsh(H)[-1])
    assert flow.energies.sum() == pytest.approx(1)
    np.testing.assert_allclose(flow.projections, np.asarray(flow.eigenvectors).T @ y, atol=1e-12)


def test_in_the_limit_it_interpolates_and_moves_by_the_label_energy(problem):
    H, y = problem
    flow = KernelDynamics.from_gram(H, y)
    np.testing.assert_allclose(flow.outputs(math.inf), y, atol=1e-10)
    np.testing.assert_allclose(flow.outputs(math.inf, H[:5]), y[:5], atol=1e-9)
    assert flow.loss(math.inf) == 0
    assert flow.movement(math.inf) ** 2 == pytest.approx(labels.energy(H, y), rel=1e-10)
    assert flow.movement(0) == 0


def test_movement_is_that_of_descent_on_explicit_features(getkey):
    # AR-13 and AR-47: H = Z Z^T, weights start at zero.
    Z = np.asarray(jr.normal(getkey(), (8, 30)), np.float64)
    y = np.asarray(jr.normal(getkey(), (8,)), np.float64)
    flow = KernelDynamics.from_gram(Z @ Z.T, y)
    w = np.zeros(30)
    for _ in range(25):
        w -= flow.learning_rate * Z.T @ (Z @ w - y)
    assert flow.movement(25) == pytest.approx(np.linalg.norm(w), rel=1e-10)
    test_points = np.asarray(jr.normal(getkey(), (3, 30)), np.float64)
    np.testing.assert_allclose(flow.outputs(25, test_points @ Z.T), test_points @ w, atol=1e-10)


@settings(max_examples=30, deadline=None)
@given(eps=st.floats(1e-6, 1.0), factor=st.floats(0.01, 1.99), seed=st.integers(0, 1000))
def test_steps_to_is_the_first_step_that_reaches_it(eps, factor, seed):
    rng = np.random.default_rng(seed)
    values = rng.uniform(0.01, 1.0, 6)
    values[0] = 1.0
    flow = KernelDynamics.from_gram(np.diag(values), rng.standard_normal(6), learning_rate=factor)
    k = int(flow.steps_to(eps))
    assert flow.loss(k) <= eps * flow.loss(0)
    assert k == 0 or flow.loss(k - 1) > eps * flow.loss(0)


def test_labels_outside_of_the_range_are_never_reached():
    flow = KernelDynamics.from_gram(np.diag([1.0, 0.0]), np.array([1.0, 1.0]))
    assert flow.steps_to(0.6) == 1
    assert flow.steps_to(0.4) == math.inf
    np.testing.assert_allclose(flow.outputs(math.inf), [1.0, 0.0])


def test_small_rates_keep_their_digits():
    # (1 - 1e-12)^(2k) through log(1 - 1e-12) would lose four digits.
    flow = KernelDynamics.from_gram(np.diag([1.0, 1e-12]), np.array([0.0, 1.0]))
    assert flow.loss(10**10) == pytest.approx(0.5 * math.exp(-0.02), rel=1e-12)


def test_many_steps_are_evaluated_in_bounded_memory(problem):
    H, y = problem
    flow = KernelDynamics.from_gram(H, y)
    steps = np.arange(500_000)  # 500000 x 40 weights at once would be 160 MB
    curve = flow.loss(steps)
    assert curve.shape == steps.shape
    assert np.all(np.diff(curve) <= 0)
    np.testing.assert_allclose(curve[[0, 499_999]], flow.loss([0, 499_999]), rtol=1e-14)


def test_a_learning_rate_above_the_limit_warns_and_is_refused_by_steps_to(problem):
    H, y = problem
    with pytest.warns(UnlazyWarning, match="above 2/lambda_max"):
        flow = KernelDynamics.from_gram(H, y, learning_rate=3 / np.linalg.eigvalsh(H)[-1])
    assert flow.loss(200) > flow.loss(0)
    with pytest.raises(ValueError, match="`learning_rate` must be below 2/lambda_max"):
        flow.steps_to(0.1)


@pytest.mark.parametrize(
    ("H", "y", "message"),
    [
        (np.eye(3), np.ones(2), r"`y` must have shape \(3,\) or \(3, c\)"),
        (np.eye(2), np.array([1.0, np.inf]), "`y` must be finite, got nan or inf in row 1"),
        (np.ones((2, 3)), np.ones(2), "`H` must be a square Gram matrix"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), np.ones(2), "`H` must be symmetric"),
        (np.diag([1.0, -0.5]), np.ones(2), "`H` must be positive semi-definite"),
        (np.full((2, 2), np.nan), np.ones(2), "`H` must be finite"),
    ],
)
def test_bad_input_is_named(H, y, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        KernelDynamics.from_gram(H, y)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_learning_rate_must_be_positive(problem, bad):
    with pytest.raises(ValueError, match="`learning_rate` must be a positive number"):
        KernelDynamics.from_gram(*problem, learning_rate=bad)


@pytest.mark.parametrize("bad", [0.0, 1.5])
def test_relative_loss_and_steps_are_checked(problem, bad):
    flow = KernelDynamics.from_gram(*problem)
    with pytest.raises(ValueError, match="`relative_loss` must be in"):
        flow.steps_to(bad)
    with pytest.raises(ValueError, match="`steps` must be >= 0"):
        flow.loss([-1])
    with pytest.raises(ValueError, match="`step` must be an integer >= 0"):
        flow.movement(-1)


def test_dynamics_print_in_a_few_lines():
    flow = KernelDynamics.from_gram(np.diag([2.0, 1.0]), np.ones((2, 3)), momentum=0.5)
    assert repr(flow).splitlines() == [
        "KernelDynamics(2 samples, 3 outputs",
        "  2 eigenvalues from 2 to 1",
        f"  learning rate {flow.learning_rate:.4g}, momentum 0.5)",
    ]
    coupled = KernelDynamics.from_gram(
        np.eye(6).reshape(2, 3, 2, 3).swapaxes(1, 2), np.ones((2, 3))
    )
    assert "which the kernel couples" in str(coupled)
