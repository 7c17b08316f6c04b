# SPDX-License-Identifier: Apache-2.0
"""What the cells of the figure on samples against the width compute."""

import math

import jax.numpy as jnp
import jax.random as jr
import numpy as np

from unlazy.experiments import CellResult, Progress
from unlazy.nets import ThreeLayer
from unlazy.papers.allenzhu_li_liang2019.figures.width_and_samples.config import Sweep
from unlazy.papers.allenzhu_li_liang2019.three_layer_algorithm import three_layer_sgd
from unlazy.papers.shared.learner_data import mean_loss
from unlazy.papers.shared.learner_losses import learner_loss
from unlazy.papers.shared.settings import reproducible

_INPUTS = 4


def samples(n: int, *, seed: int, which: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Inputs of unit norm with $x_4 = 1/2$, and $2 \sin(3 x_1) \cos(2 x_2)$; OPT is 0.

    The first n of a seed's samples: the smaller of two sets is part of the larger.
    """
    x = np.random.default_rng([1811, seed, which]).normal(size=(n, _INPUTS - 1))
    x = math.sqrt(0.75) * x / np.linalg.norm(x, axis=1, keepdims=True)
    x = np.concatenate([x, np.full((n, 1), 0.5)], axis=1)
    y = 2 * np.sin(3 * x[:, 0]) * np.cos(2 * x[:, 1])
    return x.astype(np.float32), y.astype(np.float32)


def run(config: Sweep, *, seed: int, progress: Progress) -> CellResult:
    test = samples(config.n_test, seed=seed, which=1)
    rows = []
    with reproducible():
        net = ThreeLayer(_INPUTS, config.width)
        key_init, key_train = jr.split(jr.fold_in(jr.key(1811), seed))
        params = net.init(key=key_init)
        for done, n in enumerate(config.sizes):
            train = samples(n, seed=seed, which=0)
            # Repeated, the samples are drawn as often as before, and no size compiles anew.
            x, y = (np.concatenate([part] * (config.sizes[-1] // n)) for part in train)
            found = three_layer_sgd(
                net,
                params,
                (x, y),
                variant=config.variant,
                learning_rate=config.rate / config.width,
                rounds=config.rounds,
                inner_steps=config.inner_steps,
                decay=config.decay,
                key=key_train,
            )
            rows.append([_loss(found, part) for part in (train, test)])
            progress(done + 1, len(config.sizes))
        labels = jnp.asarray(test[1])
        zero = float(mean_loss(learner_loss("pseudo-huber"), jnp.zeros_like(labels), labels))
    losses = np.array(rows)
    table = {"n": np.array(config.sizes), "train": losses[:, 0], "test": losses[:, 1]}
    return CellResult(table, {"zero": np.asarray(zero)})


def _loss(found, part: tuple[np.ndarray, np.ndarray]) -> float:
    outputs = found.net(found.params, jnp.asarray(part[0]))
    return float(mean_loss(learner_loss("pseudo-huber"), outputs, jnp.asarray(part[1])))
