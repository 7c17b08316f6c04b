# SPDX-License-Identifier: Apache-2.0
import math
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy.escape import RandomizedRisk
from unlazy.nets import TwoLayer
from unlazy.papers.bai_lee2020 import QuadraticRisk
from unlazy.train import fit, noisy_sgd


def flat(w, data):
    """A loss whose gradient is zero: what moves is the noise alone."""
    return 0.0 * jnp.sum(w["a"]) + 0.0 * jnp.sum(w["b"]) + jnp.sum(data)


def bowl(w, batch):
    return jnp.mean(jnp.sum((batch - w[None, :]) ** 2, axis=1)) / 2


def test_the_noise_has_the_stated_length_and_is_isotropic_over_the_whole_pytree():
    """2000 steps of 10 numbers: mean square within 5 standard errors (sqrt(2/20000))."""
    history = noisy_sgd(
        flat,
        {"a": jnp.zeros(4), "b": jnp.zeros((2, 3))},
        jnp.zeros(1),
        learning_rate=1.0,
        steps=2000,
        noise=3.0,
        record={"w": lambda w: jnp.concatenate([w["a"], w["b"].ravel()])},
        key=jr.key(0),
    )
    kicks = np.diff(history.records["w"].astype(float), axis=0)
    assert np.mean(np.sum(kicks**2, axis=1)) == pytest.approx(9, rel=5 * math.sqrt(2 / 20000))
    covariance = kicks.T @ kicks / len(kicks) / 0.9
    # Off the diagonal: standard error 1/sqrt(2000); on it sqrt(2) times that; 55 numbers.
    np.testing.assert_allclose(covariance, np.eye(10), atol=5 * math.sqrt(2 / 2000))
    steps = np.sum(kicks[1:] * kicks[:-1]) / np.sum(kicks**2)
    assert abs(steps) < 5 / math.sqrt(20000)  # independent over steps


def test_the_stationary_spread_on_a_bowl_is_that_of_the_recursion():
    """w <- (1 - lr) w - lr xi has variance lr s^2 / (2 - lr) in each coordinate.

    8000 coordinates at the end of independent chains: 5 standard errors.
    """
    lr, N = 0.4, 8000
    history = noisy_sgd(
        lambda w, data: jnp.sum((w - data) ** 2) / 2,
        jnp.zeros(N),
        jnp.zeros(N),
        learning_rate=lr,
        steps=60,
        noise=math.sqrt(N),  # s = 1
        key=jr.key(1),
    )
    expected = lr / (2 - lr)
    assert np.var(np.asarray(history.params)) == pytest.approx(expected, rel=5 * math.sqrt(2 / N))


def test_without_noise_it_is_sgd_with_momentum(getkey):
    data, key = jr.normal(getkey(), (12, 3)), getkey()
    ours = noisy_sgd(bowl, jnp.ones(3), data, learning_rate=0.1, momentum=0.5, steps=30, key=key)
    optimizer = optax.sgd(0.1, momentum=0.5)
    theirs = fit(bowl, jnp.ones(3), data, optimizer=optimizer, steps=30)
    np.testing.assert_allclose(ours.loss, theirs.loss, rtol=1e-5)
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-5)


def test_an_epoch_of_mini_batches_sees_every_sample_once(getkey):
    history = noisy_sgd(
        lambda w, batch: -jnp.sum(batch @ w),
        jnp.zeros(12),
        jnp.eye(12),
        learning_rate=1.0,
        steps=8,
        batch_size=3,
        record={"seen": lambda w: w},
        key=getkey(),
    )
    seen = history.records["seen"]
    assert seen[1].sum() == 3
    np.testing.assert_array_equal(seen[4], np.ones(12))
    np.testing.assert_array_equal(seen[8], 2 * np.ones(12))
    assert not np.array_equal(seen[5] - seen[4], seen[1])  # equal ones: probability 1e-5 at most


def test_a_schedule_is_the_learning_rate_of_its_step(getkey):
    """BL-28: a drop by 0.2 for the last 40 per cent."""
    schedule = optax.piecewise_constant_schedule(0.5, {6: 0.2})
    history = noisy_sgd(
        lambda w, data: jnp.sum(w * data),
        jnp.zeros(1),
        jnp.ones(1),
        learning_rate=schedule,
        steps=10,
        record={"w": lambda w: w[0]},
        key=getkey(),
    )
    np.testing.assert_allclose(-np.diff(history.records["w"]), [0.5] * 6 + [0.1] * 4, rtol=1e-5)


def test_the_run_is_a_function_of_the_key_and_its_start_of_nothing_after_it(getkey):
    data = jr.normal(getkey(), (12, 3))

    def run(key, steps):
        return noisy_sgd(
            bowl,
            jnp.ones(3),
            data,
            learning_rate=0.1,
            steps=steps,
            noise=0.1,
            batch_size=5,
            key=key,
        ).loss

    np.testing.assert_array_equal(run(jr.key(1), 30), run(jr.key(1), 30))
    np.testing.assert_array_equal(run(jr.key(1), 30)[:20], run(jr.key(1), 20)[:20])
    assert not np.array_equal(run(jr.key(1), 30), run(jr.key(2), 30))


def test_noise_leaves_a_strict_saddle_that_sgd_without_it_does_not():
    def saddle(w, data):
        return (w[0] ** 2 - w[1] ** 2) / 2 + w[1] ** 4 / 4 + data[0]

    runs = {
        noise: noisy_sgd(
            saddle,
            jnp.zeros(2),
            jnp.zeros(1),
            learning_rate=0.1,
            steps=200,
            noise=noise,
            key=jr.key(0),
        )
        for noise in (0.0, 1e-3)
    }
    np.testing.assert_array_equal(runs[0.0].params, 0)
    assert runs[1e-3].loss[-1] == pytest.approx(-0.25, abs=1e-4)


@pytest.mark.slow
def test_sgd_on_the_randomised_risk_fits_2_xor_through_its_quadratic_part():
    """BL-28 in small: both risks fall far below log 2, and nearly together."""
    d, m, n = 6, 128, 120
    rng = np.random.default_rng(0)
    x = rng.choice([-1.0, 1.0], (n, d)).astype(np.float32)
    y = x[:, 0] * x[:, 1]
    net = TwoLayer(d, m, "relu3", "symmetric", init_scale=1 / math.sqrt(d))
    params = net.init(key=jr.key(0))
    start = 0.1 * m**-0.25 * jr.normal(jr.key(1), (m, d)) / math.sqrt(d)
    history = noisy_sgd(
        RandomizedRisk(net, params, "logistic", strength=1e-5),
        start,
        (x, y),
        learning_rate=0.4 * math.sqrt(m),
        steps=300,
        stochastic=True,
        key=jr.key(2),
    )
    randomized = float(np.mean(history.loss[-30:]))
    clean = float(QuadraticRisk.of(net, params, x, y, strength=1e-5)(history.params))
    assert randomized < 0.3
    assert clean < 0.3
    assert abs(randomized - clean) < 0.1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"noise": -1.0}, "`noise` must be at least 0"),
        ({"momentum": 1.5}, "`momentum` must be from 0 to below 1"),
        ({"learning_rate": 0.0}, "`learning_rate` must be a positive number"),
        ({"batch_size": 13}, "`batch_size` must be at most the number of samples, 12"),
        ({"batch_size": 0}, "`batch_size` must be an integer >= 1"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    options: dict[str, Any] = {"learning_rate": 0.1, "steps": 1, "key": jr.key(0)}
    with pytest.raises(ValueError, match=message):
        noisy_sgd(bowl, jnp.ones(3), jnp.ones((12, 3)), **(options | arguments))


def test_ragged_data_is_refused():
    with pytest.raises(ValueError, match="same number of rows"):
        noisy_sgd(
            lambda w, batch: jnp.sum(w) + jnp.sum(batch[0]),
            jnp.ones(3),
            (jnp.ones(4), jnp.ones(5)),
            learning_rate=0.1,
            steps=1,
            batch_size=2,
            key=jr.key(0),
        )


def test_a_changed_closure_changes_loss_and_schedule():
    scale, rate = 1.0, 0.1

    def loss(w):
        return scale * jnp.sum(w**2) / 2

    def schedule(step):
        return rate * jnp.ones_like(step, float)

    def run():
        end = noisy_sgd(loss, jnp.ones(3), None, learning_rate=schedule, steps=1, key=jr.key(0))
        return end.params

    np.testing.assert_allclose(run(), 0.9, rtol=1e-6)
    scale = 2.0
    np.testing.assert_allclose(run(), 0.8, rtol=1e-6)
    rate = 0.2
    np.testing.assert_allclose(run(), 0.6, rtol=1e-6)
