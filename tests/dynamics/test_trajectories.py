# SPDX-License-Identifier: Apache-2.0
"""Training from initial outputs, with ridge and momentum, of coupled outputs: by second routes."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import kernels
from unlazy.core.errors import UnlazyWarning
from unlazy.dynamics import KernelDynamics

N, T, C, P = 7, 3, 2, 25


@pytest.fixture
def features():
    """Gradients of two outputs at train and test points, labels and initial outputs."""
    rng = np.random.default_rng(3)
    J = rng.standard_normal((N + T, C, P)) * rng.uniform(0.3, 2.0, (N + T, 1, 1)) / P**0.5
    return J, rng.standard_normal((N, C)), rng.standard_normal((N + T, C))


def coupled(J1, J2):
    return np.einsum("iap,jbp->ijab", J1, J2)


def descended(J, y, u0, *, rate, momentum, ridge, steps):
    """Heavy-ball descent on the weights themselves."""
    F, target = J[:N].reshape(-1, P), (y - u0[:N]).reshape(-1)
    w, v, found = np.zeros(P), np.zeros(P), []
    for _ in range(steps + 1):
        found.append(w)
        v = momentum * v - rate * (F.T @ (F @ w - target) + ridge * w)
        w = w + v
    return np.array(found)


@pytest.mark.parametrize(("momentum", "ridge"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.4), (0.7, 0.2)])
def test_descent_is_that_of_the_weights(features, momentum, ridge):
    J, y, u0 = features
    flow = KernelDynamics.from_gram(
        coupled(J[:N], J[:N]), y, momentum=momentum, ridge=ridge, start=u0[:N]
    )
    weights = descended(J, y, u0, rate=flow.learning_rate, momentum=momentum, ridge=ridge, steps=40)
    steps = np.array([[0, 1, 5], [2, 40, 17]])
    at = flow.at_step(steps)
    outputs = u0 + np.einsum("iap,kmp->kmia", J, weights[steps])
    np.testing.assert_allclose(at.train, outputs[:, :, :N], atol=1e-12)
    np.testing.assert_allclose(
        at.outputs(coupled(J[N:], J[:N]), start=u0[N:]), outputs[:, :, N:], atol=1e-12
    )
    loss = np.sum((outputs[:, :, :N] - y) ** 2, axis=(2, 3)) / 2
    np.testing.assert_allclose(at.loss, loss, rtol=1e-10)
    np.testing.assert_allclose(flow.loss(steps), loss, rtol=1e-10)
    np.testing.assert_allclose(at.movement, np.linalg.norm(weights[steps], axis=2), atol=1e-12)
    assert flow.movement(17) == pytest.approx(np.linalg.norm(weights[17]))
    np.testing.assert_array_equal(flow.outputs(steps), at.train)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_flow_is_the_exponential_in_weight_space(features, ridge):
    J, y, u0 = features
    flow = KernelDynamics.from_gram(coupled(J[:N], J[:N]), y, ridge=ridge, start=u0[:N])
    F, target = J[:N].reshape(-1, P), (y - u0[:N]).reshape(-1)
    values, Q = np.linalg.eigh(F.T @ F + ridge * np.eye(P))
    safe = np.where(values > 1e-12, values, 1)
    for t in (0.0, 0.01, 1.0, 50.0, math.inf):
        with np.errstate(invalid="ignore"):
            speed = np.where(values > 1e-12, -np.expm1(-safe * t) / safe, 0.0)
        w = Q @ (speed * (Q.T @ F.T @ target))
        at = flow.at_time(t)
        outputs = u0 + J @ w
        np.testing.assert_allclose(at.train, outputs[:N], atol=1e-10)
        new = at.outputs(coupled(J[N:], J[:N]), start=u0[N:])
        np.testing.assert_allclose(new, outputs[N:], atol=1e-10)
        assert float(at.movement) == pytest.approx(np.linalg.norm(w), abs=1e-10)


def test_it_begins_at_the_start_and_ends_at_the_labels(features):
    J, y, u0 = features
    flow = KernelDynamics.from_gram(coupled(J[:N], J[:N]), y, momentum=0.5, start=u0[:N])
    for at in (flow.at_time([0.0, math.inf]), flow.at_step([0, math.inf])):
        np.testing.assert_array_equal(at.train[0], u0[:N])
        np.testing.assert_allclose(at.train[1], y, atol=1e-10)
        assert at.loss[1] == 0
        assert at.movement[0] == 0


def test_the_flow_goes_on_where_it_was(features):
    J, y, u0 = features
    H, cross = coupled(J[:N], J[:N]), coupled(J[N:], J[:N])
    flow = KernelDynamics.from_gram(H, y, start=u0[:N])
    first, both = flow.at_time(0.7), flow.at_time(0.7 + 1.9)
    again = KernelDynamics.from_gram(H, y, start=first.train).at_time(1.9)
    np.testing.assert_allclose(again.train, both.train, atol=1e-12)
    middle = first.outputs(cross, start=u0[N:])
    np.testing.assert_allclose(
        again.outputs(cross, start=middle), both.outputs(cross, start=u0[N:]), atol=1e-12
    )


def test_small_steps_tend_to_the_flow(features):
    J, y, u0 = features
    H, gaps = coupled(J[:N], J[:N]), []
    for steps in (1000, 2000):
        flow = KernelDynamics.from_gram(H, y, start=u0[:N], learning_rate=1.5 / steps)
        gaps.append(np.abs(flow.at_step(steps).train - flow.at_time(1.5).train).max())
    assert 0 < gaps[0] < 1e-2
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.02)


def test_coupled_outputs_are_the_flattened_problem(features):
    J, y, _ = features
    H = coupled(J[:N], J[:N])
    flat = KernelDynamics.from_gram(J[:N].reshape(-1, P) @ J[:N].reshape(-1, P).T, y.reshape(-1))
    flow = KernelDynamics.from_gram(jnp.asarray(H), y)
    np.testing.assert_allclose(flow.eigenvalues, flat.eigenvalues, rtol=1e-6)  # float32 above
    np.testing.assert_allclose(flow.at_time(2.0).train.reshape(-1), flat.at_time(2.0).train, 1e-4)
    # One kernel for both outputs is the same as a coupled one without coupling.
    plain = H[:, :, 0, 0]
    apart = KernelDynamics.from_gram(np.einsum("ij,ab->ijab", plain, np.eye(C)), y)
    together = KernelDynamics.from_gram(plain, y)
    at, of = apart.at_step(9), together.at_step(9)
    np.testing.assert_allclose(at.train, of.train, atol=1e-12)
    assert float(at.movement) == pytest.approx(float(of.movement))
    assert apart.with_labels(2 * y).loss(3) == pytest.approx(4 * together.loss(3))


def test_the_kernel_of_a_network_with_one_output_goes_with_a_vector_of_labels():
    def f(w, x):
        return jnp.tanh(x @ w)

    w, x = jnp.ones(3), np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    H = kernels.empirical_ntk(f, w, x)
    flow = KernelDynamics.from_gram(H, np.ones(4))
    plain = KernelDynamics.from_gram(H[:, :, 0, 0], np.ones(4))
    np.testing.assert_allclose(flow.outputs(5, H[:2]), plain.outputs(5, H[:2, :, 0, 0]), rtol=1e-6)


def test_ridges_add_up_and_scale_with_the_mean_of_the_diagonal():
    H, y = np.diag([3.0, 1.0]), np.ones(2)
    flow = KernelDynamics.from_gram(H, y, ridge=0.5, relative_ridge=0.25)
    assert flow.ridge == 1.0  # 0.5 + 0.25 * 2
    assert flow.learning_rate == 0.25
    np.testing.assert_allclose(flow.outputs(math.inf), [0.75, 0.5])
    assert flow.loss(math.inf) == pytest.approx((0.25**2 + 0.5**2) / 2)
    assert flow.steps_to(0.2) < math.inf
    assert flow.steps_to(0.1) == math.inf  # the ridge holds back 0.156 of the loss


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_the_largest_learning_rate_is_where_descent_begins_to_diverge(momentum):
    H, y = np.diag([2.0, 0.5]), np.ones(2)
    most = KernelDynamics.from_gram(H, y, momentum=momentum, ridge=0.5).max_learning_rate
    assert most == pytest.approx(2 * (1 + momentum) / 2.5)
    below = KernelDynamics.from_gram(H, y, learning_rate=0.999 * most, momentum=momentum, ridge=0.5)
    assert below.loss(20000) < below.loss(0)
    with pytest.warns(UnlazyWarning, match="the linear dynamics diverge"):
        above = KernelDynamics.from_gram(
            H, y, learning_rate=1.001 * most, momentum=momentum, ridge=0.5
        )
    assert above.loss(20000) > 1e3 * above.loss(0)


def test_an_operator_gives_the_same_with_start_ridge_and_momentum():
    rng = np.random.default_rng(1)
    x, y, u0 = rng.standard_normal((60, 4)), rng.standard_normal(60), rng.standard_normal(60)
    options = {"start": u0, "ridge": 0.2, "momentum": 0.4}
    flow = KernelDynamics.from_operator(kernels.operator(kernels.relu_gram, x), y, **options)
    full = KernelDynamics.from_gram(kernels.relu_gram(x), y, **options)
    for at, of in (
        (flow.at_time([1, 30]), full.at_time([1, 30])),
        (flow.at_step(9), full.at_step(9)),
    ):
        np.testing.assert_allclose(at.train, of.train, atol=1e-6)
        np.testing.assert_allclose(at.movement, of.movement, rtol=1e-6)


def test_the_start_of_new_points_is_asked_for(features, no_shape_checker):
    J, y, u0 = features
    H, cross = coupled(J[:N], J[:N]), coupled(J[N:], J[:N])
    at = KernelDynamics.from_gram(H, y, start=u0[:N]).at_time(1.0)
    with pytest.raises(ValueError, match=r"`start` must be the initial outputs at the points of"):
        at.outputs(cross)
    with pytest.raises(ValueError, match=r"`start` must have shape \(3, 2\)"):
        at.outputs(cross, start=u0)
    with pytest.raises(ValueError, match="`start` must be None without `cross_gram`"):
        at.outputs(start=u0[:N])
    with pytest.raises(ValueError, match=r"`start` must have shape \(7, 2\)"):
        KernelDynamics.from_gram(H, y, start=u0)


def test_bad_options_are_named(features, no_shape_checker):
    J, y, _ = features
    H = coupled(J[:N], J[:N])
    for options, message in (
        ({"momentum": 1.0}, "`momentum` must be a number from 0 to less than 1, got momentum=1.0"),
        ({"momentum": -0.1}, "`momentum` must be a number >= 0"),
        ({"ridge": -1.0}, "`ridge` must be a number >= 0"),
        ({"relative_ridge": math.nan}, "`relative_ridge` must be a number >= 0"),
    ):
        with pytest.raises(ValueError, match=message):
            KernelDynamics.from_gram(H, y, **options)  # pyright: ignore[reportArgumentType]  # numbers
    with pytest.raises(ValueError, match=r"`y` must have shape \(7, 2\), a column for each output"):
        KernelDynamics.from_gram(H, y[:, :1])
    with pytest.raises(
        ValueError, match=r"`H` must be a Gram matrix of shape \(n, n\) or \(n, n, c"
    ):
        KernelDynamics.from_gram(H[:, :, :1], y)
    with pytest.raises(ValueError, match="`H` must be symmetric"):
        KernelDynamics.from_gram(H + np.triu(np.ones((C, C)), 1), y)
    flow = KernelDynamics.from_gram(H, y, momentum=0.5)
    with pytest.raises(ValueError, match="`momentum` must be 0 for the loss to fall"):
        flow.steps_to(0.1)
    with pytest.raises(ValueError, match=r"`cross_gram` must have shape \(t, 7, 2, 2\)"):
        flow.outputs(3, H[:, :3])
    ridged = KernelDynamics.from_gram(
        H, y, ridge=0.1, learning_rate=1.2 / (flow.eigenvalues[0] + 0.1)
    )
    with pytest.raises(
        ValueError, match=r"`learning_rate` must be at most 1/\(lambda_max \+ ridge"
    ):
        ridged.steps_to(0.9)
