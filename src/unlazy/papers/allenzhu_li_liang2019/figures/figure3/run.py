# SPDX-License-Identifier: Apache-2.0
"""What the cells of Figure 3 compute."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import Array, Float

from unlazy.experiments import CellResult, Progress
from unlazy.nets import ThreeLayer, ThreeLayerParams
from unlazy.papers.allenzhu_li_liang2019.figures import samples
from unlazy.papers.allenzhu_li_liang2019.figures.figure3.config import Training
from unlazy.papers.allenzhu_li_liang2019.three_layer_objective import (
    spread_ratio,
    three_layer_regularizer,
)
from unlazy.papers.shared.grids.learner import MeanSquare, Samples, initial, stack
from unlazy.papers.shared.grids.tuning import Table, tune
from unlazy.papers.shared.settings import reproducible
from unlazy.train import GridResult, fit_grid

MOMENTUM = 0.9


class Penalized(NamedTuple):
    """A network with its own strength of the penalty; the strength is not trained."""

    net: ThreeLayerParams
    lam_w: Float[Any, ""]


@dataclass(frozen=True)
class Objective:
    r"""The mean squared error with the penalty $\lambda_w \|W\|_{2,4}^4$ on the first layer."""

    net: ThreeLayer

    def __call__(self, params: Penalized, batch: Samples) -> Float[Array, ""]:
        """The value on a batch."""
        penalty = three_layer_regularizer(params.net, lam_w=1.0, lam_v=0.0)
        return Error(self.net)(params, batch) + params.lam_w * penalty


@dataclass(frozen=True)
class Error:
    """The mean squared error alone.

    Not a method of `Objective`: methods of two equal objects differ, and each would be compiled.
    """

    net: ThreeLayer

    def __call__(self, params: Penalized, batch: Samples) -> Float[Array, ""]:
        """The value on a batch."""
        return MeanSquare(self.net)(params.net, batch)


def decay_second_layer(lr: Any, wd: Any) -> optax.GradientTransformation:
    """PyTorch's SGD with momentum, with weight decay on `V` alone."""
    return optax.chain(
        optax.add_decayed_weights(wd, mask=_second_layer),
        optax.trace(MOMENTUM),
        optax.scale(-lr),
    )


def run(config: Training, *, seed: int, progress: Progress) -> CellResult:
    with reproducible():
        seeds = tuple(range(seed, seed + config.seeds))
        splits = [
            samples.draw(config.target, config.n, config.n_validation, config.n_test, seed=s)
            for s in seeds
        ]
        net = ThreeLayer(samples.INPUTS, config.width, init="learner")
        starts = [initial(net, samples.keys(s).init) for s in seeds]
        # The replicates are the seeds with every strength of the penalty.
        pairs = [(i, config.width * s) for i in range(len(seeds)) for s in config.strengths]
        train, validation, test = (
            stack([splits[i][place] for i, _ in pairs]) for place in range(3)
        )
        params = stack([Penalized(starts[i], np.float32(lam_w)) for i, lam_w in pairs])

        def fit(rates, decays) -> Table:
            result = fit_grid(
                Objective(net),
                params,
                train,
                learning_rates=rates,
                weight_decays=decays,
                seeds=[seeds[i] for i, _ in pairs],
                epochs=config.epochs,
                batch_size=config.batch_size,
                momentum=MOMENTUM,
                drops={config.epochs // 2: 0.1},
                optimizer=decay_second_layer if config.penalty == "norm" else None,
                trained=_hidden_weights,
                params_axes="seed",
                data_axes="seed",
                evaluate={"validation": validation, "test": test},
                metric=Error(net),
                keep="best",
                progress=progress,
                key=jax.random.key(53),
            )
            return _table(config, result, starts)

        return CellResult(tune(fit, config.rates, config.decays, extend=config.extend))


def _table(config: Training, result: GridResult, starts: list[ThreeLayerParams]) -> Table:
    """The lanes, one per row; the spread is known for the best lane of every replicate."""
    table = result.table()
    lanes, strengths = len(table["seed"]), len(config.strengths)
    replicate = np.arange(lanes) % len(result.seeds)
    spread = {name: np.full(lanes, np.nan) for name in ("spread", "spread_moved", "norm", "moved")}
    for lane, params in result.kept.items():
        W, W0 = np.asarray(params.net.W), np.asarray(starts[replicate[lane] // strengths].W)
        spread["spread"][lane], spread["norm"][lane] = spread_ratio(W), np.linalg.norm(W)
        spread["spread_moved"][lane] = spread_ratio(W - W0)
        spread["moved"][lane] = np.linalg.norm(W - W0)
    strength = np.asarray(config.strengths)[replicate % strengths]
    return table | {"strength": strength} | spread


def _hidden_weights(path: str) -> bool:
    return path.rstrip("'\"]").endswith(("W", "V"))


def _second_layer(trained: Penalized) -> Penalized:
    flags = jax.tree.map(lambda _: False, trained)
    return eqx.tree_at(lambda tree: tree.net.V, flags, True)
