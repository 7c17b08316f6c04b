# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import relu_gram
from unlazy.nets import TwoLayer
from unlazy.papers.arora2019 import gram_descent, lazy_certificate


def start(d, m, seed=0):
    net = TwoLayer(d, m, init="antisymmetric")
    return net, net.init(key=jax.random.key(seed))


def cases():
    signs = np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0, 1.0, -1.0])
    # AR-61, at its widths.
    yield "orthonormal, n = 3", np.eye(5)[:3], signs[:3], 400_000
    yield "n = 2, d = 10", np.asarray(data.sphere(2, 10, key=jax.random.key(6))), signs[:2], 200_000
    five = np.asarray(data.sphere(5, 20, key=jax.random.key(7)))
    yield "n = 5, labels of .1", five, 0.1 * signs[:5], 200_000
    ten = np.asarray(data.sphere(10, 20, key=jax.random.key(8)))
    yield "n = 10, labels of .01", ten, 0.01 * signs, 200_000


@pytest.mark.slow
@pytest.mark.parametrize(("x", "y", "m"), [pytest.param(*case[1:], id=case[0]) for case in cases()])
def test_what_is_certified_happens(x, y, m, x64):
    # AR-61: the contraction at every step, the movement below R, the deviation below its bound.
    net, params = start(x.shape[1], m)
    x, y = jnp.asarray(x, params.W.dtype), jnp.asarray(y, params.W.dtype)
    proof = lazy_certificate(params, x, y)
    assert proof.holds
    assert proof.deviation <= proof.smallest_eigenvalue - proof.rate
    history = gram_descent(net, params, x, y, learning_rate=proof.learning_rate, steps=40)
    residual = np.sqrt(2 * history.loss)
    assert np.all(residual <= proof.residual_bound(history.steps) + 1e-12)
    predicted = KernelDynamics.from_gram(relu_gram(x), y).residual(history.steps)
    gap = np.abs(residual - predicted)
    assert np.all(gap <= proof.deviation_bound(history.steps) + 1e-12)
    moved = np.linalg.norm(np.asarray(history.params.W - params.W), axis=1)
    # Measured: 2.3 to 6.5 below.
    assert proof.neuron_distance / 20 < moved.max() < proof.neuron_distance
    assert np.linalg.norm(moved) < proof.movement.value


def test_the_orthonormal_case_has_the_measured_rate():
    # AR-61: mu = .37, Delta = .126, bound on the deviation .435.
    _, params = start(5, 400_000)
    proof = lazy_certificate(params, jnp.eye(5)[:3], jnp.array([1.0, -1.0, 1.0]))
    assert proof.rate == pytest.approx(0.37, abs=0.02)
    assert proof.deviation == pytest.approx(0.126, abs=0.02)
    assert proof.deviation_bound(np.arange(200)).max() == pytest.approx(0.435, rel=0.15)
    assert proof.initial_output < 1e-6


def test_generic_labels_are_not_certified_and_nothing_follows():
    # AR-61: fails at n = 5, d = 20, +-1 labels, even at m = 1e6.
    x = data.sphere(5, 20, key=jax.random.key(9))
    _, params = start(20, 100_000)
    proof = lazy_certificate(params, x, jnp.array([1.0, -1.0, 1.0, 1.0, -1.0]))
    assert not proof.holds
    assert proof.slack < 0
    assert np.all(np.isinf(proof.residual_bound([0, 10])))
    assert proof.deviation_bound(3) == math.inf
    assert proof.movement.value == math.inf


@pytest.mark.parametrize("rows", [[0, 0], [0, 1, 2, 1]])
def test_a_singular_kernel_is_never_certified(rows):
    # lambda_0 is 0, computed as anything of the size of rounding; labels of 0 need no movement,
    # and every pattern is on in half of the neurons, so that nothing else speaks against it.
    x = np.eye(3)[rows]
    _, params = start(3, 8)
    corners = np.array([[a, b, c] for a in (1.0, -1) for b in (1.0, -1) for c in (1.0, -1)])
    params = type(params)(W=jnp.asarray(corners, params.W.dtype), a=params.a)
    proof = lazy_certificate(params, jnp.asarray(x), jnp.zeros(len(rows)))
    assert not proof.holds
    assert proof.smallest_eigenvalue <= 0 <= proof.rate
    assert np.isinf(proof.deviation_bound(1))
    assert np.isinf(proof.movement.value)


def test_the_condition_is_that_of_the_definition():
    # Delta and R once more, by loops.
    x = np.asarray(data.sphere(3, 4, key=jax.random.key(10)), np.float64)
    y = np.array([0.02, -0.01, 0.03])
    _, params = start(4, 5000)
    proof = lazy_certificate(params, x, y)
    W = np.asarray(params.W, np.float64)
    R = math.sqrt(3) * np.linalg.norm(y) / (math.sqrt(5000) * proof.rate)
    assert proof.neuron_distance == pytest.approx(R, rel=1e-5)
    s = [np.mean([abs(w @ xi) <= proof.neuron_distance for w in W]) for xi in x]
    A = (x @ W.T >= 0).astype(float)
    H = np.asarray(relu_gram(x))
    gap = np.linalg.norm(x @ x.T * (A @ A.T) / 5000 - H, 2)
    assert proof.deviation == pytest.approx(gap + 4 * math.sqrt(3) * np.linalg.norm(s), rel=1e-6)
    slack = np.linalg.eigvalsh(H)[0] - proof.rate - proof.deviation
    assert proof.slack == pytest.approx(slack, abs=1e-9)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": 2 * np.eye(3)}, "`x` must have rows of unit norm, got a norm of 2 in row 0"),
        ({"y": np.ones(2)}, r"`y` must have shape \(3,\)"),
        ({"learning_rate": 3.0}, "`learning_rate` must be at most 1/lambda_max=2"),
        ({"rates": 0}, "`rates` must be an integer >= 1"),
    ],
)
def test_bad_arguments_are_named(change, message, no_shape_checker):
    _, params = start(3, 10)
    with pytest.raises(ValueError, match=message):
        lazy_certificate(params, **{"x": np.eye(3), "y": np.ones(3)} | change)
