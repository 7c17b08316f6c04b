# SPDX-License-Identifier: Apache-2.0
import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.data import corners, target
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.allenzhu_li2019 import pad_inputs, parity_network, repeat_neurons


def error(params, d, degree):
    """The mean square error over the cube, and the largest deviation."""
    with jax.enable_x64(True):
        x = corners(d, scale=d**-0.5)
        y = target("parity", coordinates=range(degree), scale=d**-0.5)(x)
        f = np.asarray(TwoLayer(d, len(params.W))(params, jnp.asarray(x)))
    return np.mean((f - y) ** 2), np.max(np.abs(f - y))


@pytest.mark.parametrize(
    ("d", "degree", "copies"), [(2, 2, 1), (5, 4, 2), (6, 6, 1), (6, 6, 4), (10, 6, 3), (3, 1, 2)]
)
def test_the_network_is_the_parity_with_the_norm_of_the_closed_form(d, degree, copies):
    # RN-73: recorded max|f - y| <= 4e-16 at (d, m) = (6, 64), (6, 256), (10, 192).
    net = parity_network(d, degree, copies=copies)
    assert net.params.W.shape == (copies * 2**degree, d)
    assert error(net.params, d, degree)[1] < 2e-15
    assert np.linalg.norm(net.params.W) == pytest.approx(net.norm, rel=1e-14)
    assert np.sum(np.asarray(net.params.a)) == 0  # half of each sign


def test_norms_are_those_of_the_record():
    recorded = {2: 2.8284, 4: 8.0, 6: 13.0639, 8: 18.1019}
    for p, value in recorded.items():
        net = parity_network(p, p)
        assert net.norm / math.sqrt(p) == pytest.approx(value, abs=5e-5)
        assert net.gamma * net.norm == pytest.approx(1, rel=1e-14)


@pytest.mark.parametrize("share", [0.3, 0.7, 1.0])
def test_a_share_of_the_norm_attains_the_frontier(share):
    net = parity_network(6, 6, share=share)
    assert error(net.params, 6, 6)[0] == pytest.approx((1 - share) ** 2, abs=1e-14)
    assert net.frontier(net.norm) == pytest.approx((1 - share) ** 2, abs=1e-14)
    np.testing.assert_array_equal(net.frontier(np.array([0.0, 1e9])), [1.0, 0.0])


def test_no_network_lies_below_the_frontier():
    # Random networks, and the best multiple of each: the bound is for any width and any weights.
    rng = np.random.default_rng(0)
    d, x = 4, corners(4, scale=0.5)
    y, net = np.prod(2 * x, axis=1), parity_network(4, 4)
    for width in (4, 64, 1000):
        W = rng.standard_normal((width, d))
        h = np.maximum(x @ W.T, 0)
        a = np.sign(h.T @ y + 1e-9) / math.sqrt(width)  # each neuron as useful as it can be
        f = h @ a
        best = max(f @ y / (f @ f), 0)
        for scale in (best, 0.3 * best):
            tau = scale * np.linalg.norm(W)
            assert np.mean((scale * f - y) ** 2) >= net.frontier(tau) - 1e-12


@pytest.mark.parametrize(("p", "d"), [(2, 2), (4, 4), (6, 6), (6, 8), (8, 8)])
def test_equal_entries_are_the_best_direction(p, d):
    # RN-73: gamma by ascent from 200 starts; checked, not proved.
    x = corners(d, scale=d**-0.5)
    y = np.prod(x[:, :p] * math.sqrt(d), axis=1)
    u, best = np.random.default_rng(p).standard_normal((200, d)), 0.0
    for t in range(300):
        u /= np.linalg.norm(u, axis=1, keepdims=True)
        z = u @ x.T
        value = np.mean(y * np.maximum(z, 0), axis=1)
        best = max(best, float(np.max(np.abs(value))))
        slope = np.sign(value)[:, None] * ((z > 0) * y) @ x
        # The function has kinks, at its maximum too: steps must shrink.
        u = u + 0.97**t * slope / (np.linalg.norm(slope, axis=1, keepdims=True) + 1e-300)
    gamma = parity_network(d, p).gamma
    assert 0.999 * gamma <= best <= gamma * (1 + 1e-12)


def test_the_best_direction_for_a_parity_of_eight_has_the_margin_on_record():
    assert parity_network(8, 8).gamma == pytest.approx(0.15625 / 8, rel=1e-12)  # RN-73: c_8


def test_padding_and_repeating_keep_the_function_and_the_norm():
    # RN-74: from 6 inputs and 5 neurons to 9 and 15, here for any weights.
    rng = np.random.default_rng(0)
    W, a = rng.standard_normal((5, 6)), rng.choice([-1.0, 1.0], 5)
    small, x = corners(6, scale=6**-0.5), corners(9, scale=1 / 3)
    with jax.enable_x64(True):
        params = TwoLayerParams(jnp.asarray(W), jnp.asarray(a))
        wide = pad_inputs(repeat_neurons(params, 3), 9)
        before = np.asarray(TwoLayer(6, 5)(params, jnp.asarray(small)))
        after = np.asarray(TwoLayer(9, 15)(wide, jnp.asarray(x)))
        size = float(jnp.linalg.norm(wide.W))
    np.testing.assert_allclose(after, before[np.arange(512) % 64], atol=1e-14)
    assert size / 3 == pytest.approx(np.linalg.norm(W) / math.sqrt(6), rel=1e-14)


@functools.partial(jax.jit, static_argnums=3)
def trained(W, a, decay, steps):
    """RN-74: full batch, momentum .9, learning rate 2 with a drop by 10 at half."""
    x = jnp.asarray(corners(6, scale=6**-0.5), jnp.float32)
    y = jnp.prod(x * math.sqrt(6), axis=1)

    def loss(W):
        return jnp.mean((jax.nn.relu(x @ W.T) @ a / math.sqrt(len(a)) - y) ** 2)

    def step(carry, t):
        W, v = carry
        v = 0.9 * v + jax.grad(loss)(W) + decay * W
        return (W - jnp.where(t < steps // 2, 2.0, 0.2) * v, v), None

    (W, _), _ = jax.lax.scan(step, (W, jnp.zeros_like(W)), jnp.arange(steps))
    return W, loss(W)


@pytest.mark.slow
def test_trained_networks_come_near_the_least_norm_and_not_below():
    # RN-74: m = 200, d = 6: norms / sqrt(6) of 13.14, 11.17 and 8.92 at errors .0038, .068, .175
    # for these weight decays; one draw of the weights, so to a tenth.
    key_W, key_a = jax.random.split(jax.random.key(0))
    W = jax.random.normal(key_W, (200, 6)) / math.sqrt(200)
    a = jax.random.permutation(key_a, jnp.repeat(jnp.array([1.0, -1.0]), 100))
    net = parity_network(6, 6)
    for decay, size, level in [(1e-4, 13.14, 0.0038), (5e-4, 11.17, 0.068), (1e-3, 8.92, 0.175)]:
        found, loss = trained(W, a, decay, 20_000)
        tau = float(jnp.linalg.norm(found))
        assert tau / math.sqrt(6) == pytest.approx(size, rel=0.1)
        assert float(loss) == pytest.approx(level, rel=0.35, abs=0.002)
        assert float(loss) >= net.frontier(tau) - 1e-6


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match=r"`degree` must be 1 or even.*got degree=3"):
        parity_network(5, 3)
    with pytest.raises(ValueError, match="at most inputs=4, got degree=6"):
        parity_network(4, 6)
    with pytest.raises(ValueError, match="`inputs` must be an integer >= 3"):
        pad_inputs(TwoLayerParams(jnp.ones((2, 3)), jnp.ones(2)), 2)


def test_widened_networks_keep_their_dtype_with_x64_off():
    params = parity_network(4, 2).params
    assert pad_inputs(repeat_neurons(params, 3), 9).W.dtype == jnp.float64
    narrow = TwoLayerParams(jnp.ones((2, 3)), jnp.ones(2))
    wide = pad_inputs(repeat_neurons(narrow, 3), 9)
    assert (wide.W.dtype, wide.a.dtype) == (jnp.float32, jnp.float32)
