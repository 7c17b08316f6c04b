# SPDX-License-Identifier: Apache-2.0
"""The cells of the figure of Theorem 1, computed."""

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy import data
from unlazy.data.parities import hard_parities
from unlazy.experiments import CellResult, Progress
from unlazy.nets import ResNet3
from unlazy.papers.allenzhu_li2019.algorithm import ResNetRun, resnet_sgd
from unlazy.papers.allenzhu_li2019.figures.theorem1.config import Training
from unlazy.papers.shared.settings import reproducible


def run(config: Training, *, seed: int, progress: Progress) -> CellResult:
    del progress  # a cell takes seconds
    with reproducible():
        runs = _train(config, key=jr.fold_in(jr.key(1028), seed))
    return CellResult(_table(runs, config))


def _train(config: Training, *, key: PRNGKeyArray) -> list[ResNetRun]:
    """One run, or one per layer: every step draws a fresh sample of the distribution."""
    key_start, key_first, key_second = jr.split(key, 3)
    net = ResNet3(config.inputs, config.width, config.outputs)
    stages = ((1, 0, key_first), (0, 1, key_second)) if config.layer_wise else ((1, 1, key_first),)
    runs, params = [], net.init(key=key_start)
    for first, second, key_samples in stages:
        found = resnet_sgd(
            net,
            params,
            _distribution(config),
            rate_w=first * config.rate,
            rate_v=second * config.rate,
            steps=config.steps // len(stages),
            record_every=config.steps // config.rows,
            key=key_samples,
        )
        params = found.params
        runs.append(found)
    return runs


def _distribution(config: Training) -> tuple[Float[Array, "n d"], Float[Array, "n k"]]:
    """Every corner with every pattern of signs as noise: all values, equally likely."""
    d, k = config.inputs, config.outputs
    x = data.corners(d, scale=d**-0.5)
    y = hard_parities(range(k), alpha=config.alpha, scale=d**-0.5)(x)
    signs = data.corners(k)
    rows = np.repeat(x, len(signs), axis=0)
    labels = np.repeat(y, len(signs), axis=0) + config.noise * np.tile(signs, (len(x), 1))
    return jnp.asarray(rows, jnp.float32), jnp.asarray(labels, jnp.float32)


def _table(runs: list[ResNetRun], config: Training) -> dict[str, np.ndarray]:
    """Steps and risks against the target; a later stage begins where the one before has ended."""
    steps, risks = [np.zeros(1, np.int64)], [runs[0].risk[:1]]
    for one in runs:
        steps.append(steps[-1][-1] + np.asarray(one.history.steps[1:], np.int64))
        risks.append(one.risk[1:])
    # The noise has mean zero at every corner, so that its part of the risk is 2 OPT.
    risk = np.concatenate(risks).astype(np.float64) - 2 * config.opt
    return {"step": np.concatenate(steps), "risk": risk}
