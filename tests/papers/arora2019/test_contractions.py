# SPDX-License-Identifier: Apache-2.0
from typing import Any

import jax
import numpy as np
import pytest

from unlazy import data
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import relu_gram
from unlazy.nets import TwoLayer
from unlazy.papers.arora2019 import contraction, gram_descent, initial_loss, worst_labels

N, D, STEPS = 12, 8, 60


@pytest.fixture(scope="module")
def problem():
    x = data.sphere(N, D, key=jax.random.key(5))
    y = data.random_labels(N, key=jax.random.key(6))
    return x, y, KernelDynamics.from_gram(relu_gram(x), y)


def of(flow):
    return {
        "learning_rate": flow.learning_rate,
        "smallest_eigenvalue": float(flow.eigenvalues[-1]),
    }


def test_the_kernel_keeps_the_promise_and_its_worst_labels_contract_exactly(problem):
    x, _, flow = problem
    steps = np.arange(STEPS)
    found = contraction(flow.loss(steps), **of(flow))
    assert found.holds
    worst = flow.with_labels(worst_labels(relu_gram(x)))
    slowest = contraction(worst.loss(steps), **of(flow))
    rate = flow.learning_rate * float(flow.eigenvalues[-1])
    assert slowest.worst == pytest.approx((1 - rate) ** 2, rel=1e-9)
    assert slowest.promised == pytest.approx(1 - rate / 2)
    assert found.worst < slowest.worst
    # Every third step: the mean rate per step is the same for a pure exponential.
    thinned = contraction(worst.loss(steps[::3]), steps=steps[::3], **of(flow))
    assert thinned.worst == pytest.approx(slowest.worst, rel=1e-9)


def run(problem, width, kappa):
    x, y, flow = problem
    net = TwoLayer(D, width, init="antisymmetric", init_scale=kappa)
    start = net.init(key=jax.random.key(7))
    history = gram_descent(net, start, x, y, learning_rate=flow.learning_rate, steps=STEPS)
    return contraction(history.loss, **of(flow))


def test_a_wide_network_keeps_the_promise_and_a_narrow_one_breaks_it(problem):
    # Theorem 3.1 is for wide networks. Of 4 neurons 2 are independent, so that an input has no
    # active neuron with probability 1/4: its loss never falls, and in the end it is the loss.
    *_, flow = problem
    wide, narrow = run(problem, 4096, 1.0), run(problem, 4, 1.0)
    assert wide.holds
    assert not narrow.holds
    assert narrow.worst > 0.99
    # The wide one is also close to the kernel's own worst step.
    assert wide.worst == pytest.approx(
        contraction(flow.loss(np.arange(STEPS + 1)), **of(flow)).worst, abs=0.02
    )


@pytest.mark.parametrize(("kappa", "size"), [(1.0, 1.0), (0.3, 0.2)])
def test_the_initial_loss_has_the_mean_of_the_bound_and_seldom_exceeds_it(kappa, size):
    # The bound times delta is the mean of Phi(0): of 2000 starts within 5 standard errors, which
    # fails with probability below 1e-6. Markov: at most a share delta of starts lies above it.
    rng, m = np.random.default_rng(int(100 * kappa)), 30
    x = rng.standard_normal((N, D))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y = size * rng.choice([-1.0, 1.0], N)
    W, a = kappa * rng.standard_normal((2000, m, D)), rng.choice([-1.0, 1.0], (2000, m))
    u = np.einsum("sri,sr->si", np.maximum(W @ x.T, 0), a) / np.sqrt(m)
    losses = np.sum((u - y) ** 2, axis=1) / 2
    bound = initial_loss(N, init_scale=kappa, delta=0.4, label_norm=float(np.linalg.norm(y)))
    error = np.std(losses, ddof=1) / np.sqrt(2000)
    assert losses.mean() == pytest.approx(0.4 * bound, abs=5 * error)
    assert np.mean(losses > bound) <= 0.4
    assert initial_loss(N, init_scale=kappa, delta=0.4) >= bound  # labels in [-1, 1]


def test_the_worst_step_is_found_and_rounding_is_left_out():
    one: dict[str, Any] = {"learning_rate": 0.1, "smallest_eigenvalue": 0.5}
    loss = np.array([1.0, 0.5, 0.45, 0.1, 1e-12, 2e-12])
    found = contraction(loss, **one)
    assert (found.step, found.holds) == (1, True)
    assert found.worst == pytest.approx(0.9)
    assert contraction(loss, floor=0.0, **one).worst == pytest.approx(2)
    assert contraction(np.array([1.0, 0.0]), **one).worst == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"loss": np.array([1.0])}, "`loss` must be two or more losses >= 0"),
        ({"loss": np.array([1.0, -1.0])}, "`loss` must be two or more losses >= 0"),
        ({"loss": np.array([1.0, np.nan])}, "`loss` must be finite"),
        ({"steps": np.array([0, 2, 2])}, "`steps` must be 3 increasing step numbers"),
        ({"floor": 1.0}, r"`floor` must be in \[0, 1\), got floor=1.0"),
        ({"learning_rate": 0.0}, "`learning_rate` must be a positive number"),
    ],
)
def test_bad_arguments_are_named(change, message, no_shape_checker):
    values = {"loss": np.array([3.0, 2.0, 1.0]), "learning_rate": 0.1, "smallest_eigenvalue": 0.5}
    with pytest.raises(ValueError, match=message):
        contraction(**values | change)
