# SPDX-License-Identifier: Apache-2.0
"""Both alternatives of Lemma 6.7."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019 import (
    ThreeLayerObjective,
    descent_alternatives,
    flip_first_layer,
    pseudo_terms,
)
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import Movement
from unlazy.papers.shared import sign_pattern

NET = ThreeLayer(3, (12, 10))
OPTIONS: dict[str, Any] = {
    "loss": "half-squared",
    "sigma_w": 0,
    "sigma_v": 0,
    "lam_w": 0.2,
    "lam_v": 0.05,
}
OBJECTIVE = ThreeLayerObjective(NET, 1, **OPTIONS)


def scene(seed, size):
    """A start, a movement of it, good weights and inputs, all in float64."""
    keys = jr.split(jr.key(seed), 4)
    params = jax.tree.map(lambda leaf: leaf.astype(float), NET.init(key=keys[0]))
    delta, star = (
        Movement(scale * jr.normal(k, (12, 3)), scale * jr.normal(jr.fold_in(k, 1), (10, 12)))
        for scale, k in ((0.05, keys[1]), (size, keys[2]))
    )
    return params, delta, star, jr.normal(keys[3], (6, 3))


def terms(params, delta, star, x):
    """The network, the pseudo network of the good weights, and its cross terms by neuron."""
    moved = eqx.tree_at(lambda p: (p.W, p.V), params, (params.W + delta.W, params.V + delta.V))
    pattern = sign_pattern(NET, moved, x)

    def parts(signs):
        step = flip_first_layer(eqx.tree_at(lambda p: (p.W, p.V), params, tuple(star)), signs)
        return pseudo_terms(NET, moved, step, x, pattern)

    quadratic = parts(jnp.ones(12)).quadratic
    cross = jax.jacfwd(lambda s: parts(s).cross_V + parts(s).cross_W)(jnp.ones(12))
    return np.asarray(NET(moved, x)), np.asarray(quadratic), np.asarray(cross)


@pytest.mark.parametrize(("seed", "size", "lam"), [(0, 0.3, 1.0), (2, 0.4, 0.4)])
def test_both_changes_are_their_expansions_in_eta(seed, size, lam, x64):
    # Half squares, no noise: step = <L', lam G*> + E |lam cross|^2 / 2 + that of R, with E over the
    # signs the sum over neurons; decay = -<L', lam F> - lam dR/dlam. Up to sqrt(eta) at kinks.
    params, delta, star, x = scene(seed, size)
    F, G, cross = terms(params, delta, star, x)
    y = jnp.asarray(F - 1.5)
    found = descent_alternatives(
        *(OBJECTIVE, params, delta, star, (x, y)), lam=lam, eta=1e-6, draws=4000, key=jr.key(9)
    )
    resid = lam * F - np.asarray(y)
    delta, star = jax.tree.map(np.asarray, (delta, star))
    rows, inner = np.sum(delta.W**2, 1), np.sum(delta.W * star.W, 1)
    of_W = np.sum(4 * inner**2 + 2 * rows * np.sum(star.W**2, 1))
    penalty = 0.05 * lam * np.sum(star.V**2) + 0.2 * lam**2 * of_W
    step = lam * np.mean(resid * G) + lam**2 * np.mean(np.sum(cross**2, 1)) / 2 + penalty
    # 4.5 standard errors: once in 1e5 times.
    assert abs(found.step - step) < 4.5 * found.step_error + 2e-3 * abs(step)
    assert found.step_error < 0.1 * abs(step)
    both = 0.05 * lam * np.sum(delta.V**2) + 2 * 0.2 * lam**2 * np.sum(rows**2)
    assert found.decay == pytest.approx(-lam * np.mean(resid * F) - both, rel=1e-4)
    assert found.decay_error < 1e-9  # no noise
    # Convexity: without cross terms and penalties both together reach towards OPT.
    together = lam * np.mean(resid * (G - F))
    opt, now = (np.mean((out - np.asarray(y)) ** 2) / 2 for out in (lam * G, lam * F))
    assert together <= opt - now + 1e-12


def test_one_of_both_descends_as_far_as_the_lemma_says(x64):
    # Where labels are zero only the decay helps; where the good weights carry the labels, which are
    # far away, only the step does. gamma = 1/4 and OPT = 0.
    params, delta, star, x = scene(3, 1.0)
    _, G, _ = terms(params, delta, star, x)
    none = jax.tree.map(jnp.zeros_like, star)
    unpenalised: dict[str, Any] = {**OPTIONS, "lam_w": 0, "lam_v": 0}
    objective = ThreeLayerObjective(NET, 1, **unpenalised)
    options = {"eta": 1e-2, "draws": 400, "key": jr.key(4)}
    zero = descent_alternatives(objective, params, delta, none, (x, jnp.zeros(6)), **options)
    assert zero.step == 0
    assert zero.decay == pytest.approx(-2 * zero.objective, rel=0.01)
    far = descent_alternatives(objective, params, delta, star, (x, jnp.asarray(9 * G)), **options)
    assert far.step + 4.5 * far.step_error < 0
    by_decay = 1 + far.eta * far.decay / far.objective
    assert far.claimed(0.25) < by_decay
    for found in (zero, far):
        assert found.factor < found.claimed(0.25)
    with pytest.raises(ValueError, match=r"`gamma` must be in \(0, 1\), got gamma=2.0"):
        far.claimed(2.0)
    with pytest.raises(ValueError, match=r"`eta` must be in \(0, 1\), got eta=1.0"):
        descent_alternatives(
            objective, params, delta, star, (x, jnp.asarray(G)), eta=1.0, key=jr.key(0)
        )
