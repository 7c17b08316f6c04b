# SPDX-License-Identifier: Apache-2.0
"""The grid as `fit_grid` trains it."""

from collections.abc import Mapping

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np

from benchmarks.peers.grid_problem import BATCH, DECAYS, DROP, EPOCHS, MOMENTUM, RATES, N
from unlazy.train import GridResult, batch_order, fit_grid

KEY = jr.key(0)
NAMES = ("W", "b1", "A", "V", "b2")


def orders() -> np.ndarray:
    """The order of every epoch, for the entrants that cannot draw it."""
    return np.stack([batch_order(N, epoch=epoch, key=KEY) for epoch in range(EPOCHS)])


def resnet(params, x):
    out1 = jax.nn.relu(x @ params["W"].T + params["b1"]) @ params["A"].T
    return out1 + jax.nn.relu(out1 @ params["V"].T + params["b2"]) @ params["A"].T


def loss(params, batch):
    x, y = batch
    return jnp.mean(jnp.sum((resnet(params, x) - y) ** 2, axis=1))


def train_grid(inputs: Mapping[str, np.ndarray]) -> GridResult:
    return fit_grid(
        loss,
        {name: jnp.asarray(inputs[name]) for name in NAMES},
        (jnp.asarray(inputs["x"]), jnp.asarray(inputs["y"])),
        learning_rates=RATES,
        weight_decays=DECAYS,
        epochs=EPOCHS,
        batch_size=BATCH,
        momentum=MOMENTUM,
        drops={DROP: 0.1},
        key=KEY,
    )
