# SPDX-License-Identifier: Apache-2.0
"""What the cells of Appendix G compute with the settings of the authors' code."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from unlazy import taylor
from unlazy.core.convolutions import looped
from unlazy.experiments import CellResult, Progress
from unlazy.papers.nichani2022.expansion_training import ExpansionSetting
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import FreshPenalties, ImageCourse
from unlazy.papers.nichani2022.figures.appendix_g.authors.network import (
    Network,
    Samples,
    init,
    outputs,
    two_classes,
)
from unlazy.papers.nichani2022.figures.trials import AuthorsProblem, table, train
from unlazy.train import fit

_AT_ONCE, _MOST = 500, 2000  # images that are evaluated at a time, and in all


@dataclass(frozen=True)
class Fresh:
    """Draws points of the problem; equal ones compile once."""

    problem: AuthorsProblem
    count: int

    def __call__(self, key: Array) -> Float[Array, "u d"]:
        return self.problem.points(self.count, key=key)


def penalties(config: FreshPenalties, seed: int, progress: Progress) -> CellResult:
    seeds = range(seed, seed + config.trials)
    runs = train(
        config.problem,
        seeds,
        [ExpansionSetting(lam3=config.lam3, lam1=strength) for strength in config.strengths],
        learning_rate=config.learning_rate,
        steps=config.steps,
        fresh=Fresh(config.problem, config.fresh),
        record_every=config.record_every,
        progress=progress,
    )
    axes = {"seed": np.array(seeds), "lam1": np.array(config.strengths), "step": runs.steps}
    return CellResult(table(axes, {"train": runs.train, "test": runs.test, "r3": runs.r3}))


class Batch(NamedTuple):
    """Samples of one step, or pieces of a set."""

    x: Float[Array, "*p n s s 3"]
    y: Float[Array, "*p n"]


class Held(NamedTuple):
    """What is trained, and what is read beside it, held so as to be no constants."""

    params: Network
    start: Network  # where the Taylor models are expanded
    train: Batch
    test: Batch


@dataclass(frozen=True)
class Model:
    """The network, or its Taylor model of that order."""

    order: int

    def __call__(self, held: Held, x: Float[Array, "n s s 3"]) -> Float[Array, " n"]:
        if self.order == 0:
            return outputs(held.params, x)
        return taylor.expand(outputs, held.start, self.order, at_kinks="jax")(held.params, x)


@dataclass(frozen=True)
class MeanSquare:
    """The mean of squared errors, without 1/2."""

    model: Model

    def __call__(self, held: Held, batch: Batch) -> Float[Array, ""]:
        return jnp.mean((self.model(held, batch.x) - batch.y) ** 2)


def images(config: ImageCourse, seed: int, progress: Progress) -> CellResult:
    own, new = two_classes(config.classes, config.n, config.n_test)
    start = init(config.channels, config.layers, 32, key=jr.fold_in(jr.key(2022), seed))
    held = Held(start, start, _pieces(own), _pieces(new))
    per_epoch = config.n // config.batch_size
    history = fit(
        MeanSquare(Model(config.order)),
        held,
        Batch(jnp.asarray(own.x), jnp.asarray(own.y)),
        optimizer=optax.sgd(config.learning_rate),
        steps=config.epochs * per_epoch,
        batch_size=config.batch_size,
        trained=_params_alone(held),
        record={"losses": Evaluation(config.evaluated)},
        record_every=config.record_every * per_epoch,
        progress=progress,
        key=jr.fold_in(jr.key(1), seed),
    )
    return CellResult(_rows(config, history.steps // per_epoch, history.records["losses"]))


def _params_alone(held: Held) -> Any:
    flags = jax.tree.map(lambda _: False, held)
    return flags._replace(params=jax.tree.map(lambda _: True, held.params))


def _pieces(samples: Samples) -> Batch:
    """At most 2000 of the samples, in pieces of one size that are evaluated in turn."""
    size = min(_AT_ONCE, len(samples.y))
    count = min(len(samples.y), _MOST) // size
    x = samples.x[: count * size].reshape(count, size, *samples.x.shape[1:])
    return Batch(jnp.asarray(x), jnp.asarray(samples.y[: count * size].reshape(count, size)))


@dataclass(frozen=True)
class Evaluation:
    """Mean squares on both sets and the share of right signs on new images, by order."""

    orders: tuple[int, ...]

    def __call__(self, held: Held) -> Float[Array, "k 3"]:
        def one(order: int) -> Float[Array, " 3"]:
            train, test = (self._judged(Model(order), held, s) for s in (held.train, held.test))
            return jnp.stack([train[0], test[0], test[1]])

        return jnp.stack([one(order) for order in self.orders])

    def _judged(self, model: Model, held: Held, pieces: Batch) -> Float[Array, " 2"]:
        def one(batch: Batch) -> Float[Array, " 2"]:
            f, y = model(held, batch.x), batch.y
            return jnp.stack([jnp.mean((f - y) ** 2), jnp.mean((f * y > 0).astype(f.dtype))])

        return jnp.mean(jax.lax.map(looped(one), pieces), axis=0)


def _rows(
    config: ImageCourse, epochs: Int[np.ndarray, " t"], found: Float[np.ndarray, "t k 3"]
) -> dict[str, np.ndarray]:
    """A row per recorded epoch and evaluated model."""
    epoch, evaluated = np.meshgrid(epochs, np.array(config.evaluated), indexing="ij")
    columns = {
        name: found[:, :, i].ravel().astype(np.float64)
        for i, name in enumerate(("train", "test", "accuracy"))
    }
    return {"epoch": epoch.ravel(), "evaluated": evaluated.ravel()} | columns
