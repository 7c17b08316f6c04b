# SPDX-License-Identifier: Apache-2.0
"""Any loss: against closed forms, against the linearised network itself, and its own tolerance."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unlazy import kernels, losses, taylor, train
from unlazy.dynamics import KernelDynamics, LossDynamics

N, T, C = 8, 3, 3


@pytest.fixture
def problem():
    """A kernel of train and test points with eigenvalues over four decades, labels, a start."""
    rng = np.random.default_rng(6)
    F = rng.standard_normal((N + T, 12)) * np.logspace(0, -2, 12)
    return F @ F.T, rng.standard_normal((N, C)), rng.standard_normal((N + T, C))


@pytest.mark.parametrize(("momentum", "ridge"), [(0.0, 0.0), (0.0, 0.05), (0.8, 0.0)])
def test_the_squared_loss_has_its_closed_form(problem, momentum, ridge):
    H, y, u0 = problem
    options = {"momentum": momentum, "ridge": ridge, "start": u0[:N]}
    flow = LossDynamics.from_gram(H[:N, :N], y, "half-squared", **options)
    closed = KernelDynamics.from_gram(H[:N, :N], y, **options)
    times = [300.0, 0.0, 1e-4, 0.1, 3.0]  # in any order
    steps = [40, 0, 1, 7]
    pairs = [(flow.at_time(times), closed.at_time(times), 1e-7)]
    pairs.append((flow.at_step(steps), closed.at_step(steps), 1e-11))
    for at, exact, tolerance in pairs:
        np.testing.assert_allclose(at.train, exact.train, atol=tolerance)
        new, wanted = (part.outputs(H[N:, :N], start=u0[N:]) for part in (at, exact))
        np.testing.assert_allclose(new, wanted, atol=tolerance)
        np.testing.assert_allclose(at.loss, exact.loss, atol=10 * tolerance)
        np.testing.assert_allclose(at.movement, exact.movement, atol=10 * tolerance)


def network(params, x):
    return jnp.tanh(x @ params["W"] + params["b"][None, :]) @ params["V"]


@pytest.fixture
def classified(x64):
    rng = np.random.default_rng(9)
    params = {"W": rng.standard_normal((4, 5)), "b": np.zeros(5), "V": rng.standard_normal((5, C))}
    params = jax.tree.map(jnp.asarray, params)
    x = jnp.asarray(rng.standard_normal((N + T, 4)))
    return params, x, jnp.asarray(rng.integers(0, C, N))


def cross_entropy(u, y):
    return optax.softmax_cross_entropy_with_integer_labels(u, y)


def fitted(params, x, y, *, rate, steps, momentum=None):
    """The outputs at all points of the linearised network, trained by the trainer."""
    model = taylor.linearize(network, params)
    history = train.fit(
        lambda p, batch: jnp.sum(cross_entropy(model(p, batch[0]), batch[1])),
        params,
        (x[:N], y),
        optimizer=optax.sgd(rate, momentum),
        steps=steps,
    )
    return np.asarray(model(history.params, x))


def linearised(params, x, y, **options):
    H, cross = (kernels.empirical_ntk(network, params, x[rows], x[:N]) for rows in PARTS)
    u0 = network(params, x)
    flow = LossDynamics.from_gram(H, y, cross_entropy, start=u0[:N], **options)
    return flow, lambda at: np.concatenate([at.train, at.outputs(cross, start=u0[N:])])


PARTS = slice(0, N), slice(N, N + T)


@pytest.mark.parametrize("momentum", [0.0, 0.7])
def test_descent_on_cross_entropy_is_that_of_the_linearised_network(classified, momentum):
    flow, outputs = linearised(*classified, learning_rate=0.05, momentum=momentum)
    expected = fitted(*classified, rate=0.05, steps=60, momentum=momentum or None)
    np.testing.assert_allclose(outputs(flow.at_step(60)), expected, atol=1e-10)


def test_small_steps_on_the_linearised_network_tend_to_the_flow(classified):
    flow, outputs = linearised(*classified)
    at = outputs(flow.at_time(2.0))
    gaps = [
        np.abs(fitted(*classified, rate=2.0 / steps, steps=steps) - at).max()
        for steps in (400, 800)
    ]
    assert 1e-5 < gaps[0] < 2e-2
    assert gaps[0] / gaps[1] == pytest.approx(2, rel=0.05)


def test_a_long_flow_of_one_logit_is_exact():
    # du/dt = 1/(1 + e^u) from u = 0: u + e^u = t + 1. From -40, it is t - 40 for long.
    flow = LossDynamics.from_gram(np.eye(1), np.ones(1), "logistic")
    times = np.array([0.1, 3.0, 1e3, 1e9])
    u = flow.at_time(times).train[:, 0]
    np.testing.assert_allclose(u + np.exp(u), times + 1, rtol=1e-6)
    far = LossDynamics.from_gram(np.eye(1), np.ones(1), "logistic", start=np.array([-40.0]))
    u = far.at_time([20.0, 100.0]).train[:, 0]
    assert u[0] == pytest.approx(-20, abs=1e-6)
    assert u[1] + math.exp(u[1]) == pytest.approx(60, rel=1e-6)


def test_the_tolerance_bounds_what_tightening_it_changes(problem):
    H, y, _ = problem
    flow = LossDynamics.from_gram(
        H[:N, :N], np.eye(C)[np.argmax(y, 1)], optax.softmax_cross_entropy
    )
    exact = flow.at_time([1.0, 1e4], tolerance=1e-12).train
    errors = [
        np.abs(flow.at_time([1.0, 1e4], tolerance=tol).train - exact).max() for tol in (1e-5, 1e-9)
    ]
    assert errors[1] < 1e-7 * np.abs(exact).max() < errors[0] < 1e-2 * np.abs(exact).max()


def test_scales_of_loss_labels_and_kernel_do_not_matter(problem):
    # A mean in place of a sum, with a thousand times the time; labels in other units.
    H, y, _ = problem
    flow = LossDynamics.from_gram(H[:N, :N], y, "half-squared").at_time([0.5, 50.0])

    def small(u, y):
        return jnp.sum((u - y) ** 2) / 2000

    tiny = LossDynamics.from_gram(1e-3 * H[:N, :N], 1e-6 * y, small).at_time([5e5, 5e7])
    np.testing.assert_allclose(tiny.train, 1e-6 * flow.train, atol=1e-6 * 1e-7)


def test_what_a_loss_has_closed_over_may_change():
    strength = [1.0]

    def loss(u, y):
        return strength[0] * jnp.sum((u - y) ** 2) / 2

    flow = LossDynamics.from_gram(np.eye(2), np.ones(2), loss, learning_rate=0.1)
    first, stepped = flow.at_time(1.0).train[0], flow.at_step(1).train[0]
    strength[0] = 2.0
    assert first == pytest.approx(1 - math.exp(-1), abs=1e-7)
    assert flow.at_time(1.0).train[0] == pytest.approx(1 - math.exp(-2), abs=1e-7)
    assert flow.at_step(1).train[0] == pytest.approx(2 * stepped)


def test_shapes_follow_times_and_a_stationary_start_stays():
    flow = LossDynamics.from_gram(np.eye(2), np.ones(2), losses.pointwise("log-cosh"))
    at = flow.at_time(np.array([[0.0, 1.0], [1.0, 2.0]]))
    assert at.loss.shape == at.movement.shape == (2, 2)
    assert at.train.shape == (2, 2, 2)
    np.testing.assert_array_equal(at.train[0, 1], at.train[1, 0])
    assert flow.at_step(3).train.shape == (2,)
    still = LossDynamics.from_gram(np.eye(2), np.ones(2), "half-squared", start=np.ones(2))
    np.testing.assert_array_equal(still.at_time([0.0, 5.0]).train, np.ones((2, 2)))


def test_a_singular_kernel_moves_only_what_it_can():
    flow = LossDynamics.from_gram(np.ones((2, 2)), np.array([1.0, -1.0]), "logistic")
    np.testing.assert_allclose(flow.at_time(9.0).train, 0, atol=1e-12)


def test_bad_input_is_named(no_shape_checker):
    H, y = np.eye(2), np.ones(2)
    for args, error, message in (
        ((H, y, "absent"), ValueError, "`loss` must be a known name"),
        ((H, y, 3.0), TypeError, r"`loss` must be a function of \(outputs, labels\) or a name"),
        ((H, np.zeros(2), "logistic"), ValueError, "`y` must hold labels of plus and minus 1"),
        ((H, y, lambda u: u), ValueError, r"`loss` must accept outputs of shape \(2,\) and `y`"),
        ((H, y, lambda u, y: (u, y)), ValueError, "`loss` must return a real number"),
        ((H, np.ones(3), "half-squared"), ValueError, r"`y` must have shape \(2,\) or \(2, c\)"),
    ):
        with pytest.raises(error, match=message):
            LossDynamics.from_gram(*args)  # pyright: ignore[reportArgumentType]  # on purpose
    with pytest.raises(ValueError, match=r"`start` must have shape \(2,\) or \(2, c\)"):
        LossDynamics.from_gram(H, y, "half-squared", start=np.ones((3, 1)))
    with pytest.raises(ValueError, match=r"`y` must have a row for each of 2 samples"):
        LossDynamics.from_gram(H, np.ones(3), lambda u, y: u * y, start=np.ones((2, 1)))
    flow = LossDynamics.from_gram(H, y, "half-squared")
    with pytest.raises(ValueError, match="`times` must be finite, and at least one"):
        flow.at_time(math.inf)
    with pytest.raises(ValueError, match="`steps` must be an integer"):
        flow.at_step(1.5)
    with pytest.raises(ValueError, match=r"`tolerance` must be from 1e-13 to 0\.1"):
        flow.at_time(1.0, tolerance=0.0)


@pytest.mark.parametrize(
    "loss",
    [
        lambda u, y: jnp.sum(jnp.abs(u - y)),  # the first sample starts at the kink
        lambda u, y: jnp.sum(jnp.sqrt(u - y)),  # nan
        lambda u, y: -jnp.sum((u - y) ** 4),  # infinite after a finite time
    ],
)
def test_a_flow_that_cannot_be_followed_is_refused(loss):
    flow = LossDynamics.from_gram(np.eye(2) + 0.1, np.array([0.0, 1.0]), loss)
    with pytest.raises(ValueError, match="`loss` must have a finite gradient that varies smoothly"):
        flow.at_time(100.0)
