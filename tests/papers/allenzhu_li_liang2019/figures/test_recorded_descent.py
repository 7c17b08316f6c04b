# SPDX-License-Identifier: Apache-2.0
"""LG-33 with its numbers: the descent along a good pseudo network under random signs."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
import pytest

from unlazy import data
from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019 import (
    ThreeLayerObjective,
    flip_first_layer,
    pseudo_output,
    pseudo_terms,
)
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import Draw, Movement
from unlazy.papers.shared import sign_pattern

M, PAIRS, STARTS = 256, 400, 8
ETAS, RECORDED = (0.1, 0.03, 0.01, 0.003), (-0.463, -0.485, -0.491, -0.493)


@pytest.fixture(scope="module", autouse=True)
def optimized(quick_compilation):
    """Compile as users do: the many steps take longer than that."""
    del quick_compilation
    jax.config.update("jax_disable_most_optimizations", False)


def with_hidden(params, movement):
    return eqx.tree_at(lambda p: (p.W, p.V), params, tuple(movement))


def fitted(net, params, x, target, key):
    """W* and V* whose quadratic pseudo network is the target: 800 steps of Adam at 3e-3."""
    pattern, keys = sign_pattern(net, params, x), jr.split(key)
    shapes = (params.W.shape, params.V.shape)
    free = Movement(*(1e-3 * jr.normal(k, s) for k, s in zip(keys, shapes, strict=True)))
    optimizer = optax.adam(3e-3)

    def output(free):
        return pseudo_output(net, with_hidden(params, free), x, pattern, biases=0)

    def step(carry, _):
        free, state = carry
        slope = jax.grad(lambda f: jnp.mean((output(f) - target) ** 2))(free)
        with jax.numpy_dtype_promotion("standard"):  # optax's own arithmetic is not strict
            update, state = optimizer.update(slope, state)
        return (optax.apply_updates(free, update), state), None

    (free, _), _ = jax.lax.scan(step, (free, optimizer.init(free)), None, length=800)
    return Movement(*jax.tree.leaves(free)), output(free), pattern


@jax.jit
def measured(seed):
    """The start's loss, <L', G*>, half of E |cross|^2, and the changes over eta by pair."""
    net, keys = ThreeLayer(4, M), jr.split(jr.key(seed), 4)
    params, x = net.init(key=keys[0]), data.sphere(100, 4, key=keys[1])
    y = jnp.sin(3 * x[:, 0]) * jnp.cos(2 * x[:, 1])
    resid = net(params, x) - y
    star, G, pattern = fitted(net, params, x, -resid, keys[2])

    def cross(signs):  # linear in the signs: the rows of its matrix have the variances
        moved = flip_first_layer(with_hidden(params, star), signs)
        terms = pseudo_terms(net, params, moved, x, pattern)
        return terms.cross_V + terms.cross_W

    half = jnp.mean(jnp.sum(jax.jacrev(cross)(jnp.ones(M)) ** 2, axis=1)) / 2
    objective = ThreeLayerObjective(
        net, loss="half-squared", sigma_w=0, sigma_v=0, lam_w=0, lam_v=0
    )
    still = Draw(jnp.zeros_like(params.W), jnp.zeros_like(params.V), jnp.ones(M))
    base = objective.data_loss(params, (x, y), 1.0)

    def change(eta, signs):
        step = Movement(*(eta**0.5 * part for part in star))
        ends = [objective.weights(params, step, still._replace(signs=s)) for s in (signs, -signs)]
        losses = [objective.data_loss(end, (x, y), 1.0) for end in ends]
        return ((losses[0] + losses[1]) / 2 - base) / eta

    signs = jr.rademacher(keys[3], (PAIRS, M), dtype=jnp.float32)
    changes = [jax.lax.map(partial(change, eta), signs) for eta in ETAS]
    return base, jnp.mean(resid * G), half, jnp.stack(changes)


@pytest.mark.slow
def test_the_loss_falls_by_the_slope_less_half_of_the_cross_terms():
    # On record, of one start: <L', G*> = -0.862, and change / eta = -0.463 to -0.493 from eta = .1
    # to .003, +-0.009. Both depend on the start: over our eight, the slope is from -0.35 to -3.2.
    slopes, rates = [], []
    for seed in range(STARTS):
        base, slope, half, changes = (np.asarray(part) for part in measured(seed))
        # The fit is exact, so that the slope is E[resid * (-resid)], twice the start's loss.
        assert slope == pytest.approx(-2 * base, rel=0.05)
        found, error = changes.mean(axis=1), changes.std(axis=1) / np.sqrt(PAIRS)
        # To first order in eta; five standard errors, below 1e-5 in all, and the next order.
        assert found[3] == pytest.approx(slope + half, abs=5 * error[3] + 0.05 * abs(slope))
        assert abs(found[0] / found[3] - 1) < 0.15 + 5 * error[0] / abs(found[3])
        slopes.append(float(slope))
        rates.append(found)
    assert min(slopes) < -0.862 < max(slopes)
    # The start whose slope is nearest to the recorded one.
    near = rates[int(np.argmin(np.abs(np.array(slopes) + 0.862)))]
    np.testing.assert_allclose(near, RECORDED, rtol=0.2)
