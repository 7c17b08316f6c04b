# SPDX-License-Identifier: Apache-2.0
"""AR-48: every perturbation of a finite network falls with the width as the theory says."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data
from unlazy.dynamics import KernelDynamics
from unlazy.kernels import relu_gram
from unlazy.nets import TwoLayer
from unlazy.papers import arora2019
from unlazy.papers.arora2019 import gram_descent
from unlazy.papers.shared.activation_patterns import pattern, pattern_gram, preactivations

N, D, STEPS, SEEDS = 20, 10, 114, 4
WIDTHS = (256, 1024, 4096, 16384)


def inputs():
    key_x, key_y = jax.random.split(jax.random.key(0))
    return data.sphere(N, D, key=key_x), data.random_labels(N, key=key_y)


def gram_at(W, x):
    with jax.enable_x64(True):
        return np.asarray(pattern_gram(pattern(preactivations(W, x)), x))


def perturbations(width, seed, x, y, flow, kappa):
    net = TwoLayer(D, width, init="antisymmetric", init_scale=kappa)
    params = net.init(key=jax.random.key(100 + seed))
    history = gram_descent(net, params, x, y, learning_rate=flow.learning_rate, steps=STEPS)
    end, residual = history.params, np.sqrt(2 * history.loss.astype(np.float64))
    flips = arora2019.flipped_fraction(params.W, end.W, x)
    moved = np.linalg.norm(np.asarray(end.W - params.W, np.float64), axis=1)
    return {
        "deviation": np.max(np.abs(residual - flow.residual(history.steps))) / math.sqrt(N),
        "flips": flips,
        "features": math.sqrt(N * flips),  # |Z(k) - Z(0)|_F^2 = #flips / m
        "gram": np.linalg.norm(gram_at(end.W, x) - gram_at(params.W, x)),
        "movement": abs(np.linalg.norm(moved) / flow.movement(math.inf) - 1),
        "neuron": moved.max(),
        "contraction": np.max(history.loss[1:] / history.loss[:-1]),
    }


@functools.cache
def tabulated(kappa):
    x, y = inputs()
    flow = KernelDynamics.from_gram(relu_gram(x), y)
    runs = [[perturbations(m, seed, x, y, flow, kappa) for seed in range(SEEDS)] for m in WIDTHS]
    means = {
        name: np.array([np.mean([run[name] for run in row]) for row in runs]) for name in runs[0][0]
    }
    return flow, means


@pytest.fixture
def table():
    return tabulated(1.0)


def exponent(values):
    coefficients, covariance = np.polyfit(np.log(WIDTHS), np.log(values), 1, cov=True)
    return coefficients[0], math.sqrt(covariance[0, 0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "low", "high"),
    [  # measured in AR-48: -.62, -.51, -.255, -.62, -.63, -.494
        ("deviation", -0.85, -0.45),
        ("flips", -0.58, -0.44),
        ("features", -0.29, -0.22),
        ("gram", -0.75, -0.45),
        ("movement", -1.0, -0.4),
        ("neuron", -0.56, -0.42),
    ],
)
def test_perturbations_fall_with_the_exponent_of_the_theory(table, name, low, high):
    _, means = table
    slope, error = exponent(means[name])
    assert low < slope < high
    assert error < 0.15  # four widths make a line


@pytest.mark.slow
def test_at_a_small_initialisation_the_exponents_have_not_settled():
    # AR-48 at kappa = .1: -.41, -.34, -.17, -.41, -.45, -.49; flips are many, so everything that
    # they govern falls more slowly than at kappa = 1, and the movement of a neuron just as fast.
    (_, lazy), (flow, means) = tabulated(1.0), tabulated(0.1)
    measured = {
        "deviation": -0.41,
        "flips": -0.34,
        "features": -0.17,
        "gram": -0.41,
        "movement": -0.45,
        "neuron": -0.49,
    }
    for name, slope in measured.items():
        assert exponent(means[name])[0] == pytest.approx(slope, abs=0.12), name
    for name in ("deviation", "flips", "features", "gram"):
        assert exponent(means[name])[0] > exponent(lazy[name])[0] + 0.03, name
    # The loss contracts at every step as Theorem 3.1 says here too: measured worst .899 of .9475.
    lam0 = float(flow.eigenvalues[-1])
    assert means["contraction"].max() <= 1 - flow.learning_rate * lam0 / 2


@pytest.mark.slow
def test_perturbations_have_the_measured_size(table):
    # AR-48 at m = 256 and 16384, on other inputs: within a factor 2.
    _, means = table
    measured = {
        "deviation": (0.0332, 0.0026),
        "flips": (0.0503, 0.0061),
        "features": (1.003, 0.349),
        "gram": (0.132, 0.0101),
        "neuron": (0.819, 0.105),
    }
    for name, ends in measured.items():
        ratio = means[name][[0, -1]] / np.array(ends)
        assert np.all((ratio > 0.5) & (ratio < 2)), name


@pytest.mark.slow
def test_the_bounds_of_the_paper_hold_and_are_loose(table):
    # C.1 is about 43 times the largest movement; the loss contracts as Theorem 3.1 says.
    flow, means = table
    lam0 = float(flow.eigenvalues[-1])
    for m, neuron, gram, features in zip(
        WIDTHS, means["neuron"], means["gram"], means["features"], strict=True
    ):
        bound = arora2019.perturbation_bounds(
            N, m, residual=math.sqrt(N), smallest_eigenvalue=lam0, init_scale=1.0, delta=0.1
        )
        assert 10 < bound.neuron_movement / neuron < 200
        assert gram < bound.gram_drift
        assert features < bound.feature_drift
    assert means["contraction"].max() <= 1 - flow.learning_rate * lam0 / 2


@pytest.mark.slow
def test_the_drift_of_the_features_is_the_share_of_flips():
    # AR-20, from the explicit features.
    x, _ = inputs()
    rng = np.random.default_rng(0)
    W0 = rng.standard_normal((60, D))
    W1 = W0 + 0.3 * rng.standard_normal((60, D))
    rows = np.asarray(x, np.float64)

    def features(W):
        return np.einsum("ir,id->ird", rows @ W.T >= 0, rows) / math.sqrt(60)

    drift = np.linalg.norm(features(W1) - features(W0))
    flips = arora2019.flipped_fraction(jnp.asarray(W0), jnp.asarray(W1), x)
    assert drift**2 == pytest.approx(N * flips, rel=1e-5)
    assert flips > 0.02
