# SPDX-License-Identifier: Apache-2.0
"""The learners of the experiments: networks, and linear models in coefficients."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy.papers.shared.grids.linear import (
    Coefficients,
    FunctionalSquare,
    Linear,
    Rows,
    mean_square,
)
from unlazy.papers.shared.grids.tuning import Grid, Table, tune
from unlazy.train import GridResult, fit_grid

_POOL = 8192  # training sets of all sizes up to this one are cut from one draw


class Samples(NamedTuple):
    """Inputs, and the target's values at them."""

    x: Float[Any, "n d"]
    y: Float[Any, "n *c"]


class Split(NamedTuple):
    """The sets to train on, to choose by and to measure on."""

    train: Samples
    validation: Samples
    test: Samples


class Keys(NamedTuple):
    """The keys of one seed."""

    train: PRNGKeyArray
    validation: PRNGKeyArray
    test: PRNGKeyArray
    init: PRNGKeyArray


def keys_of(paper: int, seed: int) -> Keys:
    """The keys of a seed; each paper has a number of its own, so that its keys differ."""
    return Keys(*jax.random.split(jax.random.fold_in(jax.random.key(paper), seed), 4))


def draw_split(
    target: Callable[[Any], Any],
    points: Callable[..., Array],
    d: int,
    sizes: tuple[int, int, int],
    keys: Keys,
) -> Split:
    """Sets of these sizes, from `points(n, d, key=key)`; small training sets begin larger ones."""

    def samples(count: int, key: PRNGKeyArray, pool: int) -> Samples:
        x = points(max(count, pool), d, key=key)[:count]
        return Samples(x, jnp.asarray(target(x)))

    return Split(*map(samples, sizes, keys[:3], (_POOL, 1, 1)))


@eqx.filter_jit
def initial(net: Any, key: PRNGKeyArray) -> Any:
    """The initial parameters of a network, compiled as one program."""
    return net.init(key=key)


@dataclass(frozen=True)
class MeanSquare:
    """The mean over samples of the squared error, summed over outputs, without a half."""

    model: Callable[[Any, Array], Array]

    def __call__(self, params: Any, batch: Samples) -> Float[Array, ""]:
        """Its value on a batch."""
        return jnp.sum((self.model(params, batch.x) - batch.y) ** 2) / len(batch.y)


class Learner(NamedTuple):
    """The arguments of `fit_grid`; all arrays have a leading axis of replicates."""

    loss: Callable[[Any, Any], Array]
    params: Any
    data: Any
    options: dict[str, Any]  # further arguments

    def fit(self, rates: Any, decays: Any, *, epochs: int, **training: Any) -> GridResult:
        """Train a grid as the papers do: momentum 0.9, a tenth of the rate in the second half.

        `training` has the seeds, the batch size, the progress and the key.

        Source: LG-50, arXiv:1811.04918 section 7, and RN-32, arXiv:1905.10337 section 8.
        """
        return fit_grid(
            self.loss,
            self.params,
            self.data,
            learning_rates=rates,
            weight_decays=decays,
            epochs=epochs,
            momentum=0.9,
            drops={epochs // 2: 0.1},
            params_axes="seed",
            data_axes="seed",
            keep="none",
            **self.options,
            **training,
        )


def tuned(learner: Learner, grid: Grid, **training: Any) -> Table:
    """The lanes of a grid, extended where its best lies on an edge; `training` goes to `fit`."""

    def fit(rates: Sequence[float], decays: Sequence[float]) -> Table:
        return learner.fit(rates, decays, **training).table()

    table = tune(fit, grid.rates, grid.decays, extend=grid.extend)
    return {"solver": np.full(len(table["seed"]), "sgd")} | table


def network_learner(
    net: Callable[[Any, Array], Array], starts: list[Any], splits: list[Split], trained: str
) -> Learner:
    """A network with several starts, each trained on its own split."""
    train, validation, test = (stack(list(parts)) for parts in zip(*splits, strict=True))
    options = {"evaluate": {"validation": validation, "test": test}, "trained": trained}
    return Learner(MeanSquare(net), stack(starts), train, options)


def kernel_learner(models: list[Linear], splits: list[Split]) -> Learner:
    """Linear models in coefficients, each trained on its own split."""
    pairs = list(zip(models, splits, strict=True))
    train, validation, test = (
        stack([_rows(model, split, place) for model, split in pairs]) for place in range(3)
    )
    shape = np.shape(splits[0].train.y)
    start = stack([Coefficients(np.float32(1), np.zeros(shape, np.float32)) for _ in models])
    # In full precision, which is cheap here: a kernel has entries of size m and small eigenvalues.
    options = {"metric": mean_square, "precision": "highest"}
    options |= {"evaluate": {"validation": validation, "test": test}}
    return Learner(FunctionalSquare(), start, train, options)


def stack(trees: list[Any]) -> Any:
    """Stack trees along a new leading axis, by NumPy, for which nothing is compiled."""
    return jax.tree.map(lambda *leaves: jnp.asarray(np.stack(leaves)), *trees)


def _rows(model: Linear, split: Split, place: int) -> Rows:
    y = np.asarray(split[place].y)
    K = model.K if model.coupled is None else model.coupled
    narrow = [np.asarray(part[place], np.float32) for part in (K, model.offset, model.start)]
    index = np.arange(len(y)) if place == 0 else np.zeros(len(y))
    return Rows(narrow[0], index.astype(np.int32), narrow[1], narrow[2], y)
