# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import relu_gram
from unlazy.labels import energy as label_energy
from unlazy.losses import clipped_absolute_loss, ramp_loss
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers import arora2019
from unlazy.papers.arora2019 import (
    population_loss,
    population_loss_trained,
    sample_size,
    uniform_convergence,
)


def energy_of(measure, n):
    return measure**2 * n / 2


@pytest.mark.parametrize(
    ("n", "measure", "lam_min", "tuned", "paper"),
    [
        (500, 0.549, 2.36e-2, 0.841, 1.069),
        (2000, 0.473, 2.02e-2, 0.618, 0.739),
        (10_000, 0.367, 1.55e-2, 0.436, 0.488),
        (10_000, 3.90, 7.8e-3, 3.99, 4.02),
    ],
)
def test_bounds_are_those_of_the_table(n, measure, lam_min, tuned, paper):
    # AR-63, delta = .05, MNIST (three sizes) and CIFAR-10; measure and lambda_min as in AR-53.
    M = energy_of(measure, n)
    assert population_loss(M, n, variant="leading") == pytest.approx(measure, rel=1e-12)
    assert population_loss(M, n) == pytest.approx(tuned, abs=0.006)
    value = population_loss(M, n, variant="paper", smallest_eigenvalue=lam_min)
    assert value == pytest.approx(paper, abs=0.006)


@pytest.mark.slow
def test_real_mnist_has_a_bound_that_says_something(real_data):
    # AR-63, n = 500: .549 / .841 / 1.069; the loss of the kernel's predictor is far below.
    task = data.load("mnist", classes=(0, 1), n_train=500, n_test=500, key=jax.random.key(0))
    flow = KernelDynamics.from_gram(relu_gram(task.x_train), task.y_train)
    M, lam_min = flow.movement(math.inf) ** 2, float(flow.eigenvalues[-1])
    assert population_loss(M, 500, variant="leading") == pytest.approx(0.549, rel=0.01)
    assert population_loss(M, 500) == pytest.approx(0.841, rel=0.01)
    paper = population_loss(M, 500, variant="paper", smallest_eigenvalue=lam_min)
    assert paper == pytest.approx(1.069, rel=0.01)
    u = flow.outputs(math.inf, relu_gram(task.x_test, task.x_train))
    assert np.mean(ramp_loss(u, np.asarray(task.y_test, np.float64))) < 0.1


@pytest.mark.slow
def test_the_self_tuned_bound_covers_the_loss_of_fresh_samples():
    # AR-63 at a third of its size: 10 draws, n = 100, d = 10, two label rules, delta = .05. The
    # bound is several times the loss, so that no violation is to be expected.
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((300, 10))
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        H, cross = relu_gram(x[:100]), np.asarray(relu_gram(x[100:], x[:100]))
        for y, loss in [
            (np.sign(x[:, 0]), ramp_loss),
            (x[:, 0], clipped_absolute_loss),
        ]:
            predicted = cross @ np.linalg.solve(np.asarray(H), y[:100])
            bound = population_loss(label_energy(H, y[:100]), 100)
            assert np.mean(loss(predicted, y[100:])) < bound


@pytest.mark.parametrize("variant", ["leading", "paper", "self-tuned"])
def test_the_sample_size_is_where_the_bound_is_met(variant):
    options = {"variant": variant, "smallest_eigenvalue": 0.1}
    for M, loss in [(4.0, 0.1), (30.0, 0.37), (0.0, 0.2)]:
        n = int(sample_size(M, loss, **options))
        assert population_loss(M, n, **options) <= loss
        assert n == 1 or population_loss(M, n - 1, **options) > loss


def test_the_sample_size_is_twice_the_energy_over_the_square_to_leading_order():
    # The rest is of the same order in 1/n but does not grow with M.
    sizes = [sample_size(M, 0.5) * 0.25 / (2 * M) for M in (1e2, 1e4, 1e6)]
    assert sizes[0] > sizes[1] > sizes[2] > 1
    assert sizes[2] < 1.03
    assert sample_size(math.inf, 0.1) == math.inf


def test_the_radius_is_rounded_up_and_the_training_loss_added():
    assert population_loss(8.5**2, 100) == population_loss(9.0**2, 100)
    assert population_loss(0.3, 100) == population_loss(1.0, 100)
    gap = population_loss(4.0, 100, training_loss=0.25) - population_loss(4.0, 100)
    assert gap == pytest.approx(0.25)
    assert population_loss(math.inf, 100) == math.inf


def test_uniform_convergence_is_its_formula():
    # AR-16, evaluated by hand: 2 * 3 * .1 + 3 * 2 * sqrt(log(40) / 200).
    value = uniform_convergence(0.1, 100, delta=0.05, lipschitz=3, largest_loss=2)
    assert value == pytest.approx(0.6 + 6 * math.sqrt(math.log(40) / 200))
    # The self-tuned bound is it, at the class of radius i and delta over i (i + 1).
    i, n = 7, 500
    gap = uniform_convergence(i / math.sqrt(2 * n), n, delta=0.05 / (i * (i + 1)))
    assert population_loss(float(i * i), n) == pytest.approx(gap)


def moved(seed=0, m=400, size=0.02):
    key0, key1 = jax.random.split(jax.random.key(seed))
    start = TwoLayer(5, m).init(key=key0)
    step = size * jax.random.normal(key1, (m, 5))
    return start, TwoLayerParams(W=start.W + step, a=start.a), data.sphere(30, 5, key=key0)


def test_the_bound_of_a_trained_network_is_the_sum_of_its_parts():
    # AR-17d against uniform convergence on the class of the rounded radii.
    start, end, x = moved()
    bound = population_loss_trained(start, end, x, training_loss=0.1, delta=0.05)
    dW = np.asarray(end.W, np.float64) - np.asarray(start.W, np.float64)
    largest = np.linalg.norm(dW, axis=1).max()
    assert bound.distance == math.ceil(np.linalg.norm(dW))
    assert largest <= bound.neuron_distance < 1.1 * largest * (1 + 1e-9)
    i = bound.distance
    j = round(math.log(bound.neuron_distance / 1e-6) / math.log(1.1))
    complexity = arora2019.rademacher_sharp(
        start, x, distance=bound.distance, neuron_distance=bound.neuron_distance
    )
    delta = 0.05 / (i * (i + 1) * j * (j + 1))
    expected = 0.1 + uniform_convergence(complexity, 30, delta=delta)
    assert bound.value == pytest.approx(expected, rel=1e-12)


def test_a_finer_grid_of_radii_gives_a_lower_bound_and_no_movement_the_smallest():
    start, end, x = moved()
    fine = population_loss_trained(start, end, x, training_loss=0.0)
    coarse = population_loss_trained(start, end, x, training_loss=0.0, neuron_distance_ratio=2.0)
    assert fine.residual < coarse.residual
    still = population_loss_trained(start, start, x, training_loss=0.0)
    assert still.distance == 1
    assert still.neuron_distance == pytest.approx(1.1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: population_loss(-1.0, 10), "`energy` must be >= 0, got energy=-1.0"),
        (lambda: population_loss(math.nan, 10), "`energy` must be >= 0"),
        (lambda: population_loss(1.0, 0), "`n` must be an integer >= 1"),
        (lambda: population_loss(1.0, 10, delta=1.0), r"`delta` must be a failure probability"),
        (lambda: sample_size(1.0, 0.1, variant="papper"), "Did you mean 'paper'"),  # pyright: ignore[reportArgumentType]  # on purpose
        (lambda: population_loss(1.0, 10, variant="paper"), "`smallest_eigenvalue` must be given"),
        (lambda: population_loss(1.0, 10, training_loss=-0.1), "`training_loss` must be >= 0"),
        (lambda: sample_size(1.0, 0.0), "`loss` must be a positive number"),
        (lambda: uniform_convergence(-0.1, 10, delta=0.1), "`rademacher` must be >= 0"),
        (
            lambda: population_loss_trained(*moved(), training_loss=2.0),
            r"`training_loss` must be in \[0, 1\], got training_loss=2.0",
        ),
        (
            lambda: population_loss_trained(*moved(), training_loss=0.0, neuron_distance_ratio=1.0),
            "`neuron_distance_ratio` must be above 1",
        ),
    ],
)
def test_bad_arguments_are_named(call, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_trained_output_layer_is_refused():
    start, end, x = moved()
    other = TwoLayerParams(W=end.W, a=2 * jnp.asarray(end.a))
    with pytest.raises(ValueError, match="`params` must have the shape and the output weights"):
        population_loss_trained(start, other, x, training_loss=0.0)
