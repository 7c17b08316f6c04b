# SPDX-License-Identifier: Apache-2.0
"""The six methods of the paper, ready for `fit_grid`, and exact solutions where there are any."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from unlazy.experiments import Progress
from unlazy.papers.allenzhu_li_liang2019 import samples
from unlazy.papers.allenzhu_li_liang2019.samples import Samples, Split
from unlazy.papers.allenzhu_li_liang2019.tangent import (
    Coefficients,
    FunctionalSquare,
    Linear,
    Rows,
    linear_model,
    mean_square,
)
from unlazy.train import fit_grid

# In the order of the paper's own ranking; the name says which parameters are trained, and of what.
METHODS = ("3layer", "2layer", "3layer(NTK)", "2layer(NTK)", "3layer(last)", "2layer(last)")
KERNELS = METHODS[2:]


@dataclass(frozen=True)
class MeanSquare:
    """The mean of the squared errors, without a half: gradients have a factor 2."""

    model: Callable[[Any, Array], Array]

    def __call__(self, params: Any, batch: Samples) -> Float[Array, ""]:
        """Its value on a batch."""
        return jnp.mean((self.model(params, batch.x) - batch.y) ** 2)


class Learner(NamedTuple):
    """What `fit_grid` trains; all arrays have a leading axis of seeds."""

    loss: Callable[[Any, Any], Array]
    metric: Callable[[Any, Any], Array]
    params: Any
    data: Any
    sets: dict[str, Any]
    trained: str | None
    precision: str | None

    def fit(
        self,
        rates: Any,
        decays: Any,
        *,
        seeds: tuple[int, ...],
        epochs: int,
        batch_size: int,
        progress: Progress,
    ) -> dict[str, np.ndarray]:
        """Train the grid as the paper does: momentum 0.9, the rate a tenth in the second half.

        Source: LG-50, arXiv:1811.04918 section 7.
        """
        return fit_grid(
            self.loss,
            self.params,
            self.data,
            learning_rates=rates,
            weight_decays=decays,
            seeds=seeds,
            epochs=epochs,
            batch_size=batch_size,
            momentum=0.9,
            drops={epochs // 2: 0.1},
            trained=self.trained,
            params_axes="seed",
            data_axes="seed",
            evaluate=self.sets,
            metric=self.metric,
            keep="none",
            precision=self.precision,
            progress=progress,
            key=jax.random.key(50),
        ).table()


def network_learner(
    method: str, width: int, splits: list[Split], seeds: tuple[int, ...]
) -> Learner:
    """A network whose hidden weights are trained, on the splits of the seeds."""
    net = samples.network(_layers(method), width)
    starts = stack([net.init(key=samples.keys(seed).init) for seed in seeds])
    train, validation, test = (stack(list(parts)) for parts in zip(*splits, strict=True))
    loss, sets = MeanSquare(net), {"validation": validation, "test": test}
    return Learner(loss, loss, starts, train, sets, "weights", None)


def kernel_learner(models: list[Linear], splits: list[Split]) -> Learner:
    """Linear models in coefficients, on the splits of the seeds."""
    pairs = list(zip(models, splits, strict=True))
    train, validation, test = (
        stack([_rows(model, split, place) for model, split in pairs]) for place in range(3)
    )
    count = len(splits[0].train.y)
    start = stack([Coefficients(np.float32(1), np.zeros(count, np.float32)) for _ in models])
    sets = {"validation": validation, "test": test}
    # In full precision, which is cheap here: a kernel has entries of size m and small eigenvalues.
    return Learner(FunctionalSquare(), mean_square, start, train, sets, None, "highest")


def linear_models(
    method: str, width: int, splits: list[Split], seeds: tuple[int, ...]
) -> list[Linear]:
    """The linear model behind a kernel method, for every seed."""
    net = samples.network(_layers(method), width)
    part = "last" if "last" in method else "weights"
    return [
        linear_model(
            net, net.init(key=samples.keys(seed).init), part, tuple(each.x for each in split)
        )
        for seed, split in zip(seeds, splits, strict=True)
    ]


def stack(trees: list[Any]) -> Any:
    """One tree with a leading axis for several, by NumPy, for which nothing is compiled."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)


def _rows(model: Linear, split: Split, place: int) -> Rows:
    y = np.asarray(split[place].y)
    narrow = [part[place].astype(np.float32) for part in (model.K, model.offset, model.start)]
    index = np.arange(len(y)) if place == 0 else np.zeros(len(y))
    return Rows(narrow[0], index.astype(np.int32), narrow[1], narrow[2], y)


def _layers(method: str) -> int:
    return int(method[0])
