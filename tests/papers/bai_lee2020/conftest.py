# SPDX-License-Identifier: Apache-2.0
"""Small clean risks, and the 2-XOR problem of the paper's landscape table, as functions."""

import math

import jax.numpy as jnp
import numpy as np
import pytest

from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.bai_lee2020 import QuadraticRisk


def _params(W0):
    ones = np.ones(len(W0))
    return TwoLayerParams(
        W=jnp.asarray(np.vstack([W0, W0]), float), a=jnp.asarray(np.append(ones, -ones), float)
    )


@pytest.fixture
def small():
    """A net, its initialisation, inputs of norm 1, labels, the clean risk and two movements."""

    def build(seed=0, *, m=8, d=3, n=7, loss="logistic", strength=0.0):
        rng = np.random.default_rng(seed)  # NumPy, which compiles nothing for other sizes
        net, params = (
            TwoLayer(d, m, "relu3", "symmetric"),
            _params(rng.standard_normal((m // 2, d))),
        )
        x = rng.standard_normal((n, d))
        x = jnp.asarray(x / np.linalg.norm(x, axis=1, keepdims=True), float)
        y = jnp.asarray(rng.choice([-1.0, 1.0], n), float)
        W, W_star = (jnp.asarray(m**-0.25 * rng.standard_normal((m, d)), float) for _ in range(2))
        risk = QuadraticRisk.of(net, params, x, y, loss=loss, strength=strength)
        return net, params, x, y, risk, W, W_star

    return build


@pytest.fixture
def two_xor():
    """BL-E5: first the weights, then the data, from NumPy's generator with seed 0."""

    def build(m, *, d=8, n=160, strength=1e-5):
        rng = np.random.default_rng(0)
        params = _params(rng.standard_normal((m // 2, d)) / math.sqrt(d))
        x = rng.choice([-1.0, 1.0], (n, d))
        net = TwoLayer(d, m, "relu3", "symmetric", init_scale=1 / math.sqrt(d))
        return QuadraticRisk.of(net, params, x, x[:, 0] * x[:, 1], strength=strength)

    return build


@pytest.fixture
def two_xor_solution():
    """BL-38: the + half of the neurons along e1 + e2, the - half along e1 - e2."""

    def build(m, *, d=8):
        directions = np.zeros((2, d))
        directions[:, :2] = [[1, 1], [1, -1]]
        scale = 2 * m**-0.25 * math.sqrt(math.sqrt(2 * math.pi) / 4)
        return jnp.asarray(scale * np.repeat(directions, m // 2, axis=0), float)

    return build
