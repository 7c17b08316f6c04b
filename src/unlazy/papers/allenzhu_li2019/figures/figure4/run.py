# SPDX-License-Identifier: Apache-2.0
"""The cells of Figure 4, computed."""

import math
from typing import Any

import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy import data
from unlazy.experiments import CellResult, Progress
from unlazy.nets import TwoLayer
from unlazy.nets.two_layer import TwoLayerParams
from unlazy.papers.allenzhu_li2019.figures.figure4.config import HandBuilt, Training
from unlazy.papers.shared.grids.learner import MeanSquare, Samples
from unlazy.papers.shared.settings import reproducible
from unlazy.train import GridResult, fit_grid


def run(config: Training | HandBuilt, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        key = jr.fold_in(jr.key(1067), seed)
        if isinstance(config, Training):
            result, inputs = _train(config, progress, key=key), config.inputs
        else:
            result, inputs = _build(config, progress, key=key), config.degree
    return CellResult(_table(result, inputs))


def _train(config: Training, progress: Progress, *, key: PRNGKeyArray) -> GridResult:
    r"""SGD on W alone, with fixed $a = \pm 1/\sqrt m$, half of each sign.

    Source: RN-67, arXiv:1905.10337 Figures 1 and 4.
    """
    key_train, key_test, key_W, key_order = jr.split(key, 4)
    d, scale = config.inputs, config.inputs**-0.5
    train, test = (
        _labelled(data.cube(count, d, scale=scale, key=key), config.degree)
        for count, key in ((config.n, key_train), (config.n_test, key_test))
    )
    grid = {"learning_rates": config.rates, "weight_decays": config.decays}
    batches = {"epochs": config.epochs, "batch_size": config.batch_size, "key": key_order}
    return _fit(config.width, train, test, key_W, progress=progress, **grid, **batches)


def _build(config: HandBuilt, progress: Progress, *, key: PRNGKeyArray) -> GridResult:
    """Descent on all corners of the small cube: train and test error are the exact ones.

    Source: RN-74, arXiv:1905.10337 section 8.2.
    """
    d = config.degree
    cube = _labelled(jnp.asarray(data.corners(d, scale=d**-0.5), jnp.float32), d)
    grid = {"learning_rates": [config.rate], "weight_decays": config.decays}
    return _fit(config.width, cube, cube, key, progress=progress, **grid, epochs=config.steps)


def _fit(
    width: int, train: Samples, test: Samples, key_W: PRNGKeyArray, *, epochs: int, **options: Any
) -> GridResult:
    """Train the hidden weights on a grid, with a tenth of the rate in the second half."""
    d = train.x.shape[1]
    return fit_grid(
        MeanSquare(TwoLayer(d, width)),
        start(d, width, key=key_W),
        train,
        epochs=epochs,
        drops={epochs // 2: 0.1},
        trained="hidden",
        evaluate={"test": test},
        keep="all",
        **options,
    )


def start(inputs: int, width: int, *, key: PRNGKeyArray) -> TwoLayerParams:
    """W from N(0, 1/m), which the paper does not state, and half of each sign for a."""
    ones = jnp.ones(width // 2)
    W = jr.normal(key, (width, inputs)) / math.sqrt(width)
    return TwoLayerParams(W=W, a=jnp.concatenate([ones, -ones]))


def _labelled(x: Float[Array, "n d"], degree: int) -> Samples:
    scale = x.shape[1] ** -0.5
    y = data.target("parity", coordinates=range(degree), scale=scale)(x)
    return Samples(x, jnp.asarray(y, x.dtype))


def _table(result: GridResult, inputs: int) -> dict[str, np.ndarray]:
    r"""One row per run, with $\|W\|_F / \sqrt d$, which padding and repeating neurons keep."""
    table = result.table()
    norms = [np.linalg.norm(np.asarray(result.kept[lane].W, float)) for lane in range(result.lanes)]
    return table | {"norm": np.array(norms) / math.sqrt(inputs)}
