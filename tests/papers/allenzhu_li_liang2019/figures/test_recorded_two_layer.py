# SPDX-License-Identifier: Apache-2.0
"""LG-38 with its numbers: two-layer SGD at four widths, and its distance to the pseudo network."""

import functools

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest

from unlazy.losses import pointwise
from unlazy.nets import BiasedTwoLayer
from unlazy.papers.allenzhu_li_liang2019 import pseudo_output, two_layer_sgd
from unlazy.papers.shared import flipped_fractions, sign_pattern

# By width: test loss, flipped share, mean |f - g|, longest movement of a neuron. One run each.
RECORDED = {
    250: (0.0052, 0.152, 0.181, 0.64),
    1000: (0.0052, 0.100, 0.133, 0.21),
    4000: (0.0055, 0.055, 0.069, 0.086),
    16_000: (0.0065, 0.030, 0.030, 0.025),
}


@pytest.fixture(scope="module", autouse=True)
def optimized(quick_compilation):
    """Compile as users do: the many steps take longer than that."""
    del quick_compilation
    jax.config.update("jax_disable_most_optimizations", False)


def concept(seed, d=5, n=400, n_test=1000):
    """sin(3<u1,x>)<u2,x> + exp(<u3,x>)<u4,x> on the unit sphere."""
    rng = np.random.default_rng(seed)
    U, x = (rng.normal(size=shape) for shape in ((4, d), (n + n_test, d)))
    U, x = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (U, x))
    z = x @ U.T
    y = np.sin(3 * z[:, 0]) * z[:, 1] + np.exp(z[:, 2]) * z[:, 3]
    x, y = jnp.asarray(x, jnp.float32), jnp.asarray(y, jnp.float32)
    return (x[:n], y[:n]), (x[n:], y[n:])


@functools.cache
def measured(m, seed):
    data, (x, y) = concept(seed)
    loss, net = pointwise("pseudo-huber"), BiasedTwoLayer(5, m, init_scale=0.1)
    params, eta = net.init(key=jr.key(m + seed)), 2 / (0.1 * m)
    run = two_layer_sgd(net, params, data, learning_rate=eta, iterate="last", key=jr.key(1 + seed))
    assert run.history.final_step == 4000
    signs = sign_pattern(net, params, x)
    f, g = net(run.params, x), pseudo_output(net, run.params, x, signs)
    moved = np.linalg.norm(run.params.W - params.W, axis=1).max()
    # Deterministic for a 1-Lipschitz loss: eta t sqrt(k) max|a|.
    assert moved <= eta * 4000 * np.abs(params.a).max()
    assert 0.1 < float(loss(net(params, x), y).mean()) < 0.2  # on record .15
    flips = flipped_fractions(signs, sign_pattern(net, run.params, x))[0].mean()
    return [float(loss(f, y).mean()), flips, float(jnp.mean(jnp.abs(f - g))), moved]


def check(m, seeds):
    """Every recorded number is in the range of our seeds, widened by 30 % at either end.

    Over four targets the losses range over 1.3, the flips over 1.25, |f - g| over 1.5 to 3.6, as it
    depends on the target, and the movements over 1.4 to 2.
    """
    found = np.array([measured(m, seed) for seed in range(seeds)])
    low, high = found.min(axis=0) / 1.3, found.max(axis=0) * 1.3
    assert np.all((low < RECORDED[m]) & (high > RECORDED[m])), (m, found)
    return found


def test_a_narrow_network_flips_and_leaves_its_pseudo_network_as_recorded():
    check(250, 3)


@pytest.mark.slow
def test_flips_and_coupling_fall_with_the_width_as_recorded():
    # Exponents over all widths -.39 and -.43, at the last step -.43 and -.59; theory -1/2. Ours, by
    # target: -.37 to -.42 and -.41 to -.65, at the last step -.42 to -.49 and -.62 to -.77.
    widths = np.array(list(RECORDED))
    found = np.array([check(m, 4) for m in RECORDED])  # (width, seed, number)
    logs = np.log(found)
    slopes = np.polyfit(np.log(widths), logs.reshape(4, -1), 1)[0].reshape(4, 4).mean(axis=0)
    last = np.mean(logs[3] - logs[2], axis=0) / np.log(4)
    assert slopes[0] == pytest.approx(0.0, abs=0.1)  # the loss does not depend on the width
    np.testing.assert_allclose(slopes[1:3], [-0.39, -0.43], atol=0.12)
    np.testing.assert_allclose(last[1:3], [-0.43, -0.59], atol=0.12)
    # The movement, .64 to .025 on record, is -.78: theory -1, up to logarithms.
    assert slopes[3] == pytest.approx(np.polyfit(np.log(widths), np.log([
        row[3] for row in RECORDED.values()
    ]), 1)[0], abs=0.2)  # fmt: skip
