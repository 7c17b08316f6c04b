# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 4 compute."""

import math

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
    return fit_grid(
        MeanSquare(TwoLayer(d, config.width)),
        start(d, config.width, key=key_W),
        train,
        learning_rates=config.rates,
        weight_decays=config.decays,
        epochs=config.epochs,
        batch_size=config.batch_size,
        drops={config.epochs // 2: 0.1},
        trained="hidden",
        evaluate={"test": test},
        keep="all",
        progress=progress,
        key=key_order,
    )


def _build(config: HandBuilt, progress: Progress, *, key: PRNGKeyArray) -> GridResult:
    """Descent on all corners of the small cube: train and test error are the exact ones.

    Source: RN-74, arXiv:1905.10337 section 8.2.
    """
    d = config.degree
    corners = jnp.asarray(data.corners(d, scale=d**-0.5), jnp.float32)
    cube = _labelled(corners, d)
    return fit_grid(
        MeanSquare(TwoLayer(d, config.width)),
        start(d, config.width, key=key),
        cube,
        learning_rates=[config.rate],
        weight_decays=config.decays,
        epochs=config.steps,
        drops={config.steps // 2: 0.1},
        trained="hidden",
        evaluate={"test": cube},
        keep="all",
        progress=progress,
    )


def start(inputs: int, width: int, *, key: PRNGKeyArray) -> TwoLayerParams:
    """W from N(0, 1/m), which the paper does not state, and as many positive a as negative."""
    ones = jnp.ones(width // 2)
    W = jr.normal(key, (width, inputs)) / math.sqrt(width)
    return TwoLayerParams(W=W, a=jnp.concatenate([ones, -ones]))


def _labelled(x: Float[Array, "n d"], degree: int) -> Samples:
    scale = x.shape[1] ** -0.5
    y = data.target("parity", coordinates=range(degree), scale=scale)(x)
    return Samples(x, jnp.asarray(y, x.dtype))


def _table(result: GridResult, inputs: int) -> dict[str, np.ndarray]:
    r"""A row a run, with $\|W\|_F / \sqrt d$, which padding by zeros and duplication leave."""
    table = result.table()
    norms = [np.linalg.norm(np.asarray(result.kept[lane].W, float)) for lane in range(result.lanes)]
    return table | {"norm": np.array(norms) / math.sqrt(inputs)}
