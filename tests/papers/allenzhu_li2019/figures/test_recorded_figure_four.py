# SPDX-License-Identifier: Apache-2.0
"""What was measured for Figure 4, measured again; `test_figure_four.py` has the other numbers."""

import functools
import math

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy import data
from unlazy.papers.allenzhu_li2019 import parity_network
from unlazy.papers.allenzhu_li2019.figures.figure4.claims import frontier_error, frontier_norm
from unlazy.papers.allenzhu_li2019.figures.figure4.config import HandBuilt, Training
from unlazy.papers.allenzhu_li2019.figures.figure4.run import run, start

RATES = (2.0, 5.0, 10.0)


def quiet(done, total):
    del done, total


def lanes(config, seed=0):
    """Train and test error and norm / sqrt(d), by rate and decay."""
    table = run(config, seed=seed, progress=quiet).table
    names = zip(table["learning_rate"], table["weight_decay"], strict=True)
    values = zip(table["train"], table["norm"], table["test"], strict=True)
    keys = [(round(float(rate), 3), round(float(decay), 6)) for rate, decay in names]
    return dict(zip(keys, values, strict=True))


@pytest.mark.slow
def test_networks_built_without_and_with_little_decay_are_those_on_record():
    # RN-74: 12.96 at .015 for a decay of 2e-4, 16.5 at 0 for none. Three draws of ours: 12.6 to
    # 13.7 at .015 to .021, and 16.4 to 17.1.
    built = lanes(HandBuilt((2e-4, 0.0), 20_000))
    _, norm, error = built[2.0, 2e-4]
    assert norm == pytest.approx(12.96, rel=0.06)
    assert error == pytest.approx(0.015, abs=0.008)
    assert error > frontier_error(np.array([norm]), 6)[0]
    _, norm, error = built[2.0, 0.0]
    assert norm == pytest.approx(16.5, rel=0.05)
    assert error < 1e-9
    assert norm > frontier_norm(np.zeros(1), 6)[0]  # 13.06


@pytest.mark.slow
def test_fitting_more_needs_twice_the_norm_of_the_closed_form():
    # RN-67, d = 24, N = 1500, m = 200, 100 epochs: train .18 at 24.2 sqrt(d), which is a rate of 5
    # and a decay of 3e-5: .14 to .18 at 24.1 to 24.6 in four seeds of ours. 13.06 sqrt(d) has zero.
    config = Training(200, (5.0,), (3e-5,), inputs=24, n=1500, epochs=100, n_test=5000)
    [(train, norm, test)] = lanes(config).values()
    assert train == pytest.approx(0.18, abs=0.06)
    assert norm == pytest.approx(24.2, rel=0.04)
    assert norm > 1.7 * parity_network(24, 6).norm / math.sqrt(24)
    assert test > 0.8


@pytest.mark.slow
def test_fewer_samples_and_more_neurons_are_fitted_and_not_learnt():
    # RN-67, N = 1000, m = 500: on record train .11 "needs" 30.7 sqrt(d). Not so: a rate of 5 has it
    # at 22.3, in four seeds of ours; of 10, .073 at 25 to 29. All are far above 13.06.
    config = Training(500, RATES, (3e-5,), inputs=24, n=1000, epochs=100, n_test=5000)
    found = lanes(config)
    train, norm, _ = found[5.0, 3e-5]
    assert train == pytest.approx(0.105, abs=0.015)
    assert norm == pytest.approx(22.35, rel=0.03)
    train, norm, _ = found[10.0, 3e-5]
    assert train == pytest.approx(0.073, abs=0.01)
    assert 24 < norm < 31
    for train, norm, test in found.values():
        assert train < 0.25
        assert norm > 1.3 * 13.06
        assert test > 1.1


@functools.partial(jax.jit, static_argnums=(3, 4))
def _drawn_again(rate, decay, key, n, m):
    """SGD as in Figure 4, whose batches are drawn with replacement: train error and norm."""
    d, epochs, batch = 24, 100, 50
    key_x, key_W, key_batch = jr.split(key, 3)
    x = data.cube(n, d, scale=d**-0.5, key=key_x)
    y = jnp.prod(x[:, :6] * math.sqrt(d), axis=1)
    params = start(d, m, key=key_W)
    steps = epochs * n // batch

    def loss(W, x, y):
        return jnp.mean((jax.nn.relu(x @ W.T) @ params.a / math.sqrt(m) - y) ** 2)

    def step(carry, at):
        (W, v), (t, chosen) = carry, at
        v = 0.9 * v + jax.grad(loss)(W, x[chosen], y[chosen]) + decay * W
        return (W - jnp.where(t < steps // 2, rate, rate / 10) * v, v), None

    batches = jr.randint(key_batch, (steps, batch), 0, n)
    first = (params.W, jnp.zeros_like(params.W))
    (W, _), _ = jax.lax.scan(step, first, (jnp.arange(steps), batches))
    return loss(W, x, y), jnp.linalg.norm(W) / math.sqrt(d)


@pytest.mark.slow
def test_batches_with_replacement_explain_the_norm_on_record():
    # RN-67, N = 1000, m = 500: train .11 at 30.7 sqrt(d) is a rate of 10 on batches drawn with
    # replacement, as the prototype drew them: .100 and .109 at 28.8 and 27.4 in two seeds of ours.
    train, norm = _drawn_again(10.0, 3e-5, jr.key(0), 1000, 500)
    assert float(train) == pytest.approx(0.11, abs=0.02)
    assert float(norm) == pytest.approx(30.7, rel=0.15)


@pytest.mark.slow
def test_a_parity_of_six_among_fourteen_is_learnt():
    # RN-67, d = 14, N = 600: test .22, too easy. Four seeds of ours at m = 200: the best lane has
    # .17 to .26.
    config = Training(200, (5.0, 10.0), (3e-5, 1e-4), inputs=14, n=600, epochs=100, n_test=5000)
    best = min(test for _, _, test in lanes(config).values())
    assert best == pytest.approx(0.22, abs=0.08)
