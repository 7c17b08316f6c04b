# SPDX-License-Identifier: Apache-2.0
import itertools
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy import data
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.arora2019 import rademacher_ascent, rademacher_counted, rademacher_sharp
from unlazy.papers.shared import rademacher_linear, rademacher_linear_bound, rademacher_probable
from unlazy.papers.shared.activation_patterns import pattern, pattern_gram, preactivations


def problem(n=50, d=10, m=400, kappa=1.0):
    params = TwoLayer(d, m, init_scale=kappa).init(key=jax.random.key(1))
    return params, data.sphere(n, d, key=jax.random.key(2))


def gram_at(params, x):
    with jax.enable_x64(True):
        return pattern_gram(pattern(preactivations(params.W, x)), x)


def test_the_gram_matrix_is_that_of_the_explicit_features(getkey):
    # AR-43, n = 30, d = 10, m = 300: 9e-16. The features from their definition, AR-5.
    params, x = problem(30, 10, 300)
    rows, A = np.asarray(x, np.float64), np.asarray(x, np.float64) @ np.asarray(params.W).T >= 0
    a = np.asarray(params.a, np.float64)
    Z = np.einsum("r,ir,id->ird", a, A, rows).reshape(30, -1) / math.sqrt(300)
    np.testing.assert_allclose(gram_at(params, x), Z @ Z.T, atol=5e-15)
    assert np.trace(np.asarray(gram_at(params, x))) == pytest.approx(A.sum() / 300)


def test_the_linear_value_is_the_mean_over_all_signs():
    # All 2^8 sign vectors against a sample of 2000: 5 standard errors, failure below 1e-6.
    params, x = problem(8, 3, 50)
    H = np.asarray(gram_at(params, x))
    signs = np.array(list(itertools.product([-1, 1], repeat=8)))
    exact = 2.5 / 8 * np.mean(np.sqrt(np.einsum("si,ij,sj->s", signs, H, signs)))
    estimate = rademacher_linear(H, distance=2.5, draws=2000, key=jax.random.key(0))
    assert estimate.value == pytest.approx(exact, abs=5 * estimate.standard_error)
    assert estimate.standard_error < 0.02 * exact
    assert exact <= rademacher_linear_bound(H, distance=2.5)


@pytest.mark.parametrize(
    ("kappa", "B", "linear", "ascent", "sharp", "counted", "probable"),
    [
        (1.0, 1, 0.101, 0.103, 0.183, 0.421, 0.780),
        (1.0, 5, 0.500, 0.498, 2.41, 8.05, 11.9),
        (0.1, 1, 0.096, 0.094, 0.838, 2.84, 4.38),
    ],
)
def test_estimates_and_bounds_are_those_of_the_table(
    kappa, B, linear, ascent, sharp, counted, probable
):
    # AR-60: n = 50, d = 10, m = 400, R = 2B/sqrt(m), delta = .1. Another draw of the start and of
    # the signs: the table's own sampling error is 2%.
    params, x = problem(kappa=kappa)
    R = 2 * B / math.sqrt(400)
    near = {"distance": B, "neuron_distance": R}
    H = gram_at(params, x)
    mean = rademacher_linear(H, distance=B, draws=1000, key=jax.random.key(3))
    climb = rademacher_ascent(params, x, **near, draws=8, steps=60, key=jax.random.key(4))
    c, b = rademacher_sharp(params, x, **near), rademacher_counted(params, x, **near)
    d = rademacher_probable(50, 400, **near, init_scale=kappa, delta=0.1)
    assert mean.value == pytest.approx(linear, rel=0.07)
    assert climb.value == pytest.approx(ascent, rel=0.1)
    np.testing.assert_allclose([c, b], [sharp, counted], rtol=0.05)
    assert d == pytest.approx(probable, rel=0.005)
    # The order that theory asks for.
    assert climb.value <= c <= b <= d
    assert mean.value <= rademacher_linear_bound(H, distance=B) <= c


def test_the_bounds_are_their_sums_over_samples_and_neurons():
    # AR-15 b and c by loops, for rows of any norm.
    params, x = problem(5, 3, 7)
    x, W = 1.5 * np.asarray(x, np.float64), np.asarray(params.W, np.float64)
    frobenius = count = hinge = 0.0
    for i, r in itertools.product(range(5), range(7)):
        z, size = W[r] @ x[i], np.linalg.norm(x[i])
        frobenius += (z >= 0) * size**2 / 7
        count += 2 * 0.4 * size * (abs(z) <= 0.4 * size)
        hinge += max(0.4 * size - abs(z), 0)
    linear, scale = 2.0 / 5 * math.sqrt(frobenius), 5 * math.sqrt(7)
    near = {"distance": 2.0, "neuron_distance": 0.4}
    assert rademacher_counted(params, x, **near) == pytest.approx(linear + count / scale)
    assert rademacher_sharp(params, x, **near) == pytest.approx(linear + hinge / scale)


def test_a_relu_differs_from_its_linearisation_by_at_most_the_hinge():
    # AR-15c's reason, and that it is attained.
    rng = np.random.default_rng(0)
    z0, R = rng.standard_normal(4000), 0.7
    z = z0 + R * rng.uniform(-1, 1, 4000)
    error = np.abs(np.maximum(z, 0) - (z0 >= 0) * z)
    hinge = np.maximum(R - np.abs(z0), 0)
    assert np.all(error <= hinge + 1e-15)
    assert np.max(error[hinge > 0.1] / hinge[hinge > 0.1]) > 0.97


def test_the_lemma_holds_for_most_draws_of_the_start():
    # (d) bounds (b) with probability 1 - delta; at its "exact" constant, too. 40 starts, delta =
    # .1: more than 10 violations would have probability below 2e-3, and none is seen.
    x = data.sphere(20, 5, key=jax.random.key(5))
    near = {"distance": 1.0, "neuron_distance": 0.2}
    bound = rademacher_probable(20, 100, **near, init_scale=1.0, delta=0.1, constant="exact")
    net = TwoLayer(5, 100)
    starts = [net.init(key=jax.random.key(seed)) for seed in range(40)]
    violations = sum(rademacher_counted(start, x, **near) > bound for start in starts)
    assert violations <= 10


def test_the_constants_of_the_lemma_are_ordered():
    sizes = {"distance": 1, "neuron_distance": 3.0, "init_scale": 0.5, "delta": 0.1}
    paper, proof, exact = (
        rademacher_probable(50, 400, **sizes, constant=c) for c in ("paper", "proof", "exact")
    )
    assert exact < proof < paper
    # At a large R the exact probability has saturated at 1, the proof's has not.
    common = rademacher_probable(50, 400, **sizes, constant="exact") - 2 * 3.0 * 20
    assert paper == pytest.approx(common + 2 * 9.0 * 20 / 0.5)


def test_ascent_reaches_the_linear_value_where_nothing_can_switch():
    # All pre-activations far from zero: the class is linear, its maximum (B/n) |Z^T eps|, as long
    # as R does not bind.
    rng = np.random.default_rng(0)
    W = jnp.asarray(rng.choice([-1.0, 1.0], (40, 1)) * 10)
    params = TwoLayerParams(W=W, a=jnp.asarray(rng.choice([-1.0, 1.0], 40)))
    x = jnp.asarray(rng.choice([-1.0, 1.0], (6, 1)))
    near: dict[str, Any] = {"distance": 0.5, "neuron_distance": 0.5}
    climb = rademacher_ascent(params, x, **near, draws=16, key=jax.random.key(0))
    H = np.asarray(gram_at(params, x))
    signs = np.asarray(jax.random.rademacher(jax.random.key(0), (16, 6), dtype=jnp.int8))
    exact = 0.5 / 6 * np.sqrt(np.maximum(np.einsum("si,ij,sj->s", signs, H, signs), 0))
    assert climb.value == pytest.approx(exact.mean(), rel=1e-6)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"distance": 0.0}, "`distance` must be a positive number"),
        ({"neuron_distance": -1.0}, "`neuron_distance` must be a positive number"),
        ({"draws": 1}, "`draws` must be an integer >= 2"),
        ({"steps": 0}, "`steps` must be an integer >= 1"),
        ({"x": jnp.ones((3, 4))}, r"`params0.W` must have shape \(m, d\) with one column for each"),
        ({"x": jnp.full((3, 3), jnp.nan)}, "`x` must be finite"),
    ],
)
def test_bad_arguments_are_named(change, message, no_shape_checker):
    params, x = problem(3, 3, 4)
    arguments: dict[str, Any] = {"x": x, "distance": 1.0, "neuron_distance": 0.1, "draws": 2}
    arguments |= change
    with pytest.raises(ValueError, match=message):
        rademacher_ascent(params, **arguments, key=jax.random.key(0))


def test_unknown_constants_are_named(no_shape_checker):
    sizes = {"distance": 1, "neuron_distance": 3.0, "init_scale": 0.5, "delta": 0.1}
    with pytest.raises(ValueError, match="Did you mean 'proof'"):
        rademacher_probable(5, 4, **sizes, constant="prof")  # pyright: ignore[reportArgumentType]  # on purpose
