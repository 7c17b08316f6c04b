# SPDX-License-Identifier: Apache-2.0
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data, labels
from unlazy.kernels import relu_gram
from unlazy.papers.arora2019 import (
    flipped_fraction,
    initial_gram_deviation,
    laziness,
    perturbation_bounds,
    predicted_flips,
    theory_widths,
)


def test_the_deviation_of_the_initial_gram_matrix_is_exact():
    # AR-20 and AR-44, n = 30, d = 10: rms .474 / .150 / .0474 at m = 100 / 1000 / 10000, on another
    # sample of inputs, hence 10%.
    x = data.sphere(30, 10, key=jax.random.key(0))
    rms = [initial_gram_deviation(x, m) for m in (100, 1000, 10_000)]
    np.testing.assert_allclose(rms, [0.474, 0.150, 0.0474], rtol=0.1)
    # By simulation: 200 starts of 100 neurons; the mean square has a standard error of a few per
    # cent, which the sample gives; 5 of them fail with probability below 1e-6.
    rng, rows = np.random.default_rng(0), np.asarray(x, np.float64)
    H = np.asarray(relu_gram(x))
    squares = []
    for _ in range(200):
        A = (rows @ rng.standard_normal((10, 100)) >= 0).astype(float)
        squares.append(np.sum((rows @ rows.T * (A @ A.T) / 100 - H) ** 2))
    error = float(np.std(squares, ddof=1)) / math.sqrt(200)
    assert np.mean(squares) == pytest.approx(rms[0] ** 2, abs=5 * error)
    assert initial_gram_deviation(x, 200, antisymmetric=True) == pytest.approx(rms[0])
    # Homogeneous of degree two in the inputs.
    assert initial_gram_deviation(3.0 * x, 100) == pytest.approx(9 * rms[0], rel=1e-5)


def test_the_initial_gram_matrix_tends_to_its_limit_like_the_root_of_the_width():
    # AR-44: exponent -1/2, measured -.53 on m = 256 .. 16384, n = 20, d = 10; 20 starts each.
    rng = np.random.default_rng(1)
    rows = np.asarray(data.sphere(20, 10, key=jax.random.key(4)), np.float64)
    H, widths = np.asarray(relu_gram(rows)), (256, 1024, 4096, 16384)
    means = []
    for m in widths:
        A = (np.einsum("id,sdr->sir", rows, rng.standard_normal((20, 10, m))) >= 0).astype(float)
        gaps = rows @ rows.T * (A @ A.transpose(0, 2, 1)) / m - H
        means.append(np.mean(np.linalg.norm(gaps, axis=(1, 2))))
    slope, error = np.polyfit(np.log(widths), np.log(means), 1, cov=True)
    assert slope[0] == pytest.approx(-0.5, abs=0.06)
    assert math.sqrt(error[0, 0]) < 0.03
    # The mean of a norm lies below the root of the mean square, not by much.
    exact = [initial_gram_deviation(rows, m) for m in widths]
    ratios = np.array(means) / exact
    assert np.all((ratios > 0.8) & (ratios < 1.1))


def test_the_bound_of_the_initial_gram_matrix_is_as_loose_as_measured():
    # AR-44: C.3 at delta = .1, n = 30: 6.64 / 2.10 / .66, about 14 times the rms.
    options = {"residual": 1.0, "smallest_eigenvalue": 1.0, "init_scale": 1.0, "delta": 0.1}
    values = [perturbation_bounds(30, m, **options).initial_gram for m in (100, 1000, 10_000)]
    np.testing.assert_allclose(values, [6.64, 2.10, 0.66], rtol=0.01)


def test_bounds_have_the_exponents_of_the_theory():
    options = {"residual": 4.0, "smallest_eigenvalue": 0.1, "init_scale": 0.5, "delta": 0.1}
    narrow = perturbation_bounds(20, 100, **options)
    wide = perturbation_bounds(20, 1600, **options)
    assert narrow.neuron_movement / wide.neuron_movement == pytest.approx(4)
    assert narrow.initial_gram / wide.initial_gram == pytest.approx(4)
    assert narrow.gram_drift / wide.gram_drift == pytest.approx(4)
    assert narrow.feature_drift / wide.feature_drift == pytest.approx(2)
    # C.1 and C.2 by hand.
    R = 4 * math.sqrt(20) * 4.0 / (10 * 0.1)
    assert narrow.neuron_movement == pytest.approx(R)
    assert narrow.gram_drift == pytest.approx(4 * 400 * R / (math.sqrt(2 * math.pi) * 0.5) / 0.1)
    squared = 2 * 20 * R / (math.sqrt(2 * math.pi) * 0.5) / 0.1
    assert narrow.feature_drift**2 == pytest.approx(squared)


def test_theory_widths_are_of_the_orders_of_the_theorems():
    def widths(**change):
        values = {"n": 10, "smallest_eigenvalue": 0.5, "init_scale": 1.0, "delta": 0.1, "eps": 0.2}
        return theory_widths(**values | change)

    base, twice = widths(), widths(n=20)
    assert base.convergence == pytest.approx(10**6 / (0.5**4 * 0.1**3))
    assert twice.convergence / base.convergence == pytest.approx(2**6)
    assert twice.prediction / base.prediction == pytest.approx(2**7)
    assert widths(eps=0.1).prediction / base.prediction == pytest.approx(4)
    assert widths(init_scale=0.5).convergence / base.convergence == pytest.approx(4)
    assert base.prediction_init_scale == pytest.approx(0.2 * 0.1 / math.sqrt(10))
    assert base.generalization_init_scale == pytest.approx(0.5 * 0.1 / 10)


def test_the_learning_rate_and_the_steps_of_the_theory_shrink_the_linear_residual_to_delta_over_n():
    # Theorem 5.1: after log(n/delta)/(eta lambda_0) steps the slowest direction of the linear
    # dynamics, the worst labels, has shrunk by (1 - eta lambda_0)^k <= delta/n. A small rate makes
    # that exponential exact to first order: here eta lambda_0 = 1e-4.
    def theory(n=12, **change):
        values = {"smallest_eigenvalue": 0.1, "init_scale": 1.0, "delta": 0.05, "eps": 0.2}
        return theory_widths(n, **values | change)

    x = data.sphere(12, 6, key=jax.random.key(8))
    values = np.linalg.eigvalsh(np.asarray(relu_gram(x), np.float64))
    lam0 = float(values[0])
    rate = 1e-4 / lam0
    found = theory(smallest_eigenvalue=lam0, learning_rate=rate)
    shrunk = (1 - rate * lam0) ** math.ceil(found.generalization_steps)
    assert shrunk == pytest.approx(0.05 / 12, rel=1e-3)
    assert shrunk <= 0.05 / 12
    # The rate of the theorems is below 1/lambda_max, as the proofs need: lambda_max <= n/2.
    assert found.learning_rate == pytest.approx(lam0 / 144)
    assert found.learning_rate < 1 / values[-1]
    slow = theory(smallest_eigenvalue=lam0)
    assert slow.generalization_steps == pytest.approx(144 * math.log(12 / 0.05) / lam0**2)
    assert theory(n=24).learning_rate == pytest.approx(theory().learning_rate / 4)
    with pytest.raises(ValueError, match="`learning_rate` must be a positive number"):
        theory(learning_rate=0.0)


def test_laziness_is_the_movement_over_the_initial_scale():
    x = data.sphere(20, 5, key=jax.random.key(1))
    y = data.random_labels(20, key=jax.random.key(2))
    H = relu_gram(x)
    rho = laziness(H, y, width=400, init_scale=0.5)
    assert rho == pytest.approx(math.sqrt(labels.energy(H, y)) / (0.5 * 20))
    assert laziness(H, y, width=1600, init_scale=0.5) == pytest.approx(rho / 2)


def test_predicted_flips_are_those_of_small_movements():
    # A movement independent of the start, of 2% of its scale: the formula is its first order. 20 x
    # 20000 activations, of which 0.6% flip: binomial error below 5% even if only neurons were
    # independent; tolerance 15%.
    rng = np.random.default_rng(0)
    W0 = 0.5 * rng.standard_normal((20_000, 5))
    dW = 0.01 * rng.standard_normal((20_000, 5))
    x = 2.0 * np.asarray(data.sphere(20, 5, key=jax.random.key(3)), np.float64)
    predicted = predicted_flips(dW, x, init_scale=0.5)
    assert flipped_fraction(W0, W0 + dW, x) == pytest.approx(predicted, rel=0.15)
    assert predicted_flips(2 * dW, x, init_scale=1.0) == pytest.approx(predicted)
    assert flipped_fraction(W0, W0, x) == 0
    assert flipped_fraction(W0, -W0, x) == 1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: laziness(np.eye(2), np.ones(2), width=0, init_scale=1.0), "`width` must be"),
        (lambda: laziness(np.eye(2), np.ones(2), width=1, init_scale=0.0), "`init_scale` must be"),
        (lambda: predicted_flips(jnp.ones((3, 4)), jnp.eye(2), init_scale=1.0), "`dW` must have"),
        (lambda: flipped_fraction(jnp.ones((3, 2)), jnp.ones((4, 2)), jnp.eye(2)), "`W` must have"),
        (lambda: initial_gram_deviation(jnp.eye(2), 0), "`m` must be an integer >= 1"),
        (lambda: initial_gram_deviation(jnp.zeros((2, 2)), 1), "`x` must have no row of zeros"),
        (
            lambda: perturbation_bounds(
                2, 2, residual=1.0, smallest_eigenvalue=0.0, init_scale=1.0, delta=0.1
            ),
            "`smallest_eigenvalue` must be a positive number",
        ),
        (
            lambda: theory_widths(2, smallest_eigenvalue=1.0, init_scale=1.0, delta=0.0, eps=0.1),
            "`delta` must be a failure probability",
        ),
    ],
)
def test_bad_arguments_are_named(call, message, no_shape_checker):
    with pytest.raises(ValueError, match=message):
        call()
