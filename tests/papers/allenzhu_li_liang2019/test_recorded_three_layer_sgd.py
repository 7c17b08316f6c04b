# SPDX-License-Identifier: Apache-2.0
"""Algorithms 2 and 3 of LG end to end, with the numbers on record for them."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.losses import pointwise
from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019 import ThreeLayerObjective, three_layer_sgd

NET, SIGNS, DRAWS = ThreeLayer(4, 64), 8, 20


def product_task(n, seed):
    """2 sin(3 x1) cos(2 x2) on unit x in R^4 with x_4 = 1/2."""
    x = np.random.default_rng(seed).normal(size=(n, 3))
    x = np.sqrt(0.75) * x / np.linalg.norm(x, axis=1, keepdims=True)
    x = np.concatenate([x, np.full((n, 1), 0.5)], axis=1)
    y = 2 * np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1])
    return jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)


@pytest.fixture(scope="module", autouse=True)
def optimized(quick_compilation):
    """Compile as users do: ten thousand steps of random numbers take longer than that."""
    del quick_compilation
    jax.config.update("jax_disable_most_optimizations", False)


TRAIN, TEST = product_task(400, 0), product_task(2000, 1)


def mean_loss(net, params):
    return pointwise("pseudo-huber")(net(params, TEST[0]), TEST[1]).mean()


@functools.cache
def initial_losses(starts=100):
    one = jax.jit(lambda key: mean_loss(NET, NET.init(key=key)))
    return np.array([one(jr.key(seed)) for seed in range(starts)])


@functools.cache
def start():
    """Of a hundred starts the one whose loss is nearest to that on record, .776."""
    return NET.init(key=jr.key(int(np.argmin(np.abs(initial_losses() - 0.776)))))


@functools.cache
def trained(variant, learning_rate):
    return three_layer_sgd(
        NET, start(), TRAIN, variant=variant, learning_rate=learning_rate, key=jr.key(0)
    )


@jax.jit
def candidate_losses(delta, multiplier, key):
    """Training and test losses of every Sigma^ with every draw of the smoothing noise."""
    objective, params = ThreeLayerObjective(NET), start()

    def one(key):
        key_signs, key_noise = jr.split(key)
        signs = objective.signs(params, key=key_signs)

        def losses(key):
            draw = objective.noise(params, signs, key=key)
            weights = objective.weights(params, delta, draw)
            return jnp.stack([objective.data_loss(weights, t, multiplier) for t in (TRAIN, TEST)])

        return jax.lax.map(losses, jr.split(key_noise, DRAWS))

    return jax.lax.map(one, jr.split(key, SIGNS))


def over_signs(learning_rate):
    """Test losses of Algorithm 2: of every sign the draw that it selects, and of all draws."""
    run = trained(2, learning_rate)
    losses = np.asarray(candidate_losses(run.delta, jnp.float32(run.multiplier), jr.key(7)))
    selected = np.argmin(losses[:, :, 0], axis=1)
    return losses[np.arange(SIGNS), selected, 1], losses[:, :, 1]


def test_the_recorded_initial_loss_is_one_of_many():
    # .776 on record. A start is a random function of size one: over a hundred the loss is .64 in
    # the mean, with a standard deviation of .27.
    losses = initial_losses()
    assert losses.mean() == pytest.approx(0.64, abs=0.1)
    assert losses.std() == pytest.approx(0.27, abs=0.1)
    assert np.mean(losses > 0.776) > 0.1
    assert float(mean_loss(NET, start())) == pytest.approx(0.776, abs=0.02)


@pytest.mark.slow
def test_objectives_fall_through_the_rounds_as_recorded():
    # Algorithm 3: .180, .064, .049, .032 at rounds 1, 10, 20, 40; Algorithm 2: .367, .252, .204,
    # .160. Ours are means over the steps of a round, which starts at .776: the first ones are
    # larger, .20 to .27 and .38 to .76 over four starts. Later ones varied by 15 % from run to run.
    places = [0, 9, 19, 39]
    for variant, recorded in ((1, (0.180, 0.064, 0.049, 0.032)), (2, (0.367, 0.252, 0.204, 0.160))):
        found = trained(variant, 1e-2).objective[places]
        ratio = found / np.array(recorded)
        assert 0.9 < ratio[0] < 2.3, found
        assert np.all((ratio[1:] > 1 / 1.6) & (ratio[1:] < 1.6)), found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("learning_rate", "without", "with_signs"), [(1e-2, 0.0113, 0.064), (2e-3, 0.063, 0.101)]
)
def test_test_losses_depend_on_the_step_as_recorded(learning_rate, without, with_signs):
    # Algorithm 3 and, as a mean over eight Sigma^, Algorithm 2. Over four starts with one run each:
    # .014 to .032 and .076 to .089 at step 1e-2; .057 to .080 and .101 to .114 at step 2e-3.
    run = trained(1, learning_rate)
    plain, signed = float(mean_loss(run.net, run.params)), over_signs(learning_rate)[0].mean()
    assert without / 1.4 < plain < 2.5 * without
    assert with_signs / 1.4 < signed < 1.7 * with_signs
    assert plain < signed  # at this width the signs cost accuracy


@pytest.mark.slow
def test_losses_vary_with_signs_and_smoothing_as_recorded():
    # Standard deviations of .012 over Sigma^, from eight of them, and .027 over the smoothing. Over
    # four starts ours are .007 to .030 and .031 to .045.
    selected, losses = over_signs(1e-2)
    signs = np.std(selected, ddof=1)
    smoothing = np.sqrt(np.mean(np.var(losses, axis=1, ddof=1)))
    assert 0.012 / 3 < signs < 3 * 0.012
    assert 0.027 / 2 < smoothing < 2 * 0.027
