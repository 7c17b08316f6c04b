# SPDX-License-Identifier: Apache-2.0
"""What the cells of Appendix G compute."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from unlazy import taylor
from unlazy.experiments import CellResult, Progress
from unlazy.nets import BiasedTwoLayer, TwoLayer
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import FreshPenalties, ImageCourse
from unlazy.papers.nichani2022.figures.appendix_g.authors.run import images, penalties
from unlazy.papers.nichani2022.figures.appendix_g.config import SETTINGS, Baselines, Courses
from unlazy.papers.nichani2022.figures.standard_network import standard_task
from unlazy.papers.nichani2022.figures.trials import Problem, draw, table, train
from unlazy.papers.shared.grids.tuning import merge
from unlazy.papers.shared.settings import reproducible
from unlazy.train import History, fit

ORDERS = (0, 1, 2)  # 0 stands for the network itself


def run(
    config: Baselines | Courses | FreshPenalties | ImageCourse, *, seed: int, progress: Progress
) -> CellResult:
    if isinstance(config, ImageCourse):
        with reproducible():  # products as the device likes them: TF32 on a GPU, as the authors'
            return images(config, seed, progress)
    with reproducible(), jax.default_matmul_precision("highest"):
        if isinstance(config, FreshPenalties):
            return penalties(config, seed, progress)
        if isinstance(config, Baselines):
            return _baselines(config, seed, progress)
        return _courses(config, seed, progress)


def _baselines(config: Baselines, seed: int, progress: Progress) -> CellResult:
    seeds = range(seed, seed + config.trials)
    runs = train(
        config.problem,
        seeds,
        list(SETTINGS.values()),
        learning_rate=config.learning_rate,
        steps=config.steps,
        record_every=config.steps,
        progress=progress,
    )
    axes = {"seed": np.array(seeds), "setting": np.array(list(SETTINGS))}
    curves = {"train": runs.train, "test": runs.test, "r1": runs.r1, "r3": runs.r3}
    return CellResult(table(axes, {name: curve[:, :, -1] for name, curve in curves.items()}))


class Held(NamedTuple):
    """What is trained, and what the record needs beside it, held so as to be no constants."""

    params: Any
    start: Any
    x: Float[Array, "s k d"]  # training and test points


class Samples(NamedTuple):
    """Stacked seeds: where the Taylor models are expanded, and what they are trained on."""

    start: Any
    x: Float[Array, "s n d"]
    y: Float[Array, "s n"]


@dataclass(frozen=True)
class Stacked:
    """A network or its Taylor model for several seeds, each from its own start."""

    net: TwoLayer | BiasedTwoLayer
    order: int

    def __call__(self, start: Any, params: Any, x: Float[Array, "s n d"]) -> Float[Array, "s n"]:
        if self.order == 0:
            return jax.vmap(lambda own, rows: self.net(own, rows))(params, x)
        expanded = lambda at, own, rows: taylor.expand(self.net, at, self.order)(own, rows)  # noqa: E731  # one line
        return jax.vmap(expanded)(start, params, x)


@dataclass(frozen=True)
class SumOverSeeds:
    """The sum of the mean squares of all seeds: their gradients do not touch each other."""

    model: Stacked

    def __call__(self, held: Held, batch: Samples) -> Float[Array, ""]:
        resid = self.model(batch.start, held.params, batch.x) - batch.y
        return jnp.sum(jnp.mean(resid**2, axis=1))


def _courses(config: Courses, seed: int, progress: Progress) -> CellResult:
    net, samples, test = draw_courses(config, range(seed, seed + config.seeds))
    held = Held(samples.start, samples.start, jnp.concatenate([samples.x, test.x], axis=1))
    y = np.concatenate([samples.y, test.y], axis=1)
    network, parts = np.zeros(0), []
    planned = np.append(np.arange(0, config.steps, config.record_every), config.steps)
    for order in ORDERS:
        model = Stacked(net, order)
        history = fit(
            SumOverSeeds(model),
            held,
            samples,
            optimizer=optax.sgd(config.learning_rate),
            steps=config.steps,
            trained=_trained(config, held),
            record={"f": lambda held, model=model: model(held.start, held.params, held.x)},
            record_every=config.record_every,
            progress=lambda done, total, order=order: progress(order * total + done, 3 * total),
        )
        f = _at_steps(planned, history)
        network = network if order else f
        with np.errstate(over="ignore"):  # of outputs on their way to divergence
            parts.append(_rows(config, order, seed, planned, (f - y) ** 2, (f - network) ** 2))
    return CellResult(merge(parts))


def _at_steps(planned: Int[np.ndarray, " t"], history: History) -> Float[np.ndarray, "t s k"]:
    """The outputs at the planned steps; nan at those that a diverged training did not reach."""
    found = history.records["f"]
    f = np.full((len(planned), *found.shape[1:]), np.nan, found.dtype)
    kept = np.isin(history.steps, planned)
    f[np.searchsorted(planned, history.steps[kept])] = found[kept]
    return f


def _trained(config: Courses, held: Held) -> Held:
    """True where descent moves: everywhere, or in the hidden weights of the sigmoid network."""
    flags = jax.tree.map(lambda _: False, held)
    moving = jax.tree.map(lambda _: True, held.params)
    if config.network == "sigmoid":
        moving = jax.tree.map(lambda last: not last, held.params.is_last())
    return flags._replace(params=moving)


def _rows(
    config: Courses,
    order: int,
    seed: int,
    steps: np.ndarray,
    errors: Float[np.ndarray, "t s k"],
    gaps: Float[np.ndarray, "t s k"],
) -> dict[str, np.ndarray]:
    """One row per recorded step and seed."""
    step, seeds = np.meshgrid(steps, np.arange(seed, seed + config.seeds), indexing="ij")
    means = {
        "train": errors[:, :, : config.n].mean(axis=-1),
        "test": errors[:, :, config.n :].mean(axis=-1),
        "gap": np.sqrt(gaps[:, :, config.n :].mean(axis=-1)),
    }
    table = {"order": np.full(step.size, order), "seed": seeds.ravel(), "step": step.ravel()}
    return table | {name: values.ravel().astype(np.float64) for name, values in means.items()}


def draw_courses(
    config: Courses, seeds: range
) -> tuple[TwoLayer | BiasedTwoLayer, Samples, Samples]:
    """The network, and the training and test sets of all seeds."""
    if config.network == "sigmoid":
        problem = Problem(config.inputs, config.n, config.width, n_test=config.n_test)
        drawn = draw(problem, seeds)
        sets = [Samples(drawn.params, part.x, part.y) for part in (drawn.train, drawn.test)]
        return problem.net, sets[0], sets[1]
    net = BiasedTwoLayer(config.inputs, config.width, activation="tanh")
    keys = [jr.fold_in(jr.key(53), seed) for seed in seeds]
    parts = [standard_task(net, config.n, config.n_test, bias_std=0.5, key=key) for key in keys]
    own = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    return net, Samples(own.params, own.x, own.y), Samples(own.params, own.x_test, own.y_test)
