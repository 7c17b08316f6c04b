# SPDX-License-Identifier: Apache-2.0
"""What the cells of Appendix G compute."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from unlazy import data, taylor
from unlazy.experiments import CellResult, Progress
from unlazy.nets import BiasedTwoLayer, TwoLayer
from unlazy.papers.nichani2022.expansion_training import fit_expansion
from unlazy.papers.nichani2022.figures.appendix_g.config import SETTINGS, Baselines, Courses
from unlazy.papers.nichani2022.figures.standard_network import dense_target, standard_init
from unlazy.papers.nichani2022.figures.trials import Problem, draw
from unlazy.papers.shared.settings import reproducible
from unlazy.train import History, fit

ORDERS = (0, 1, 2)  # 0 stands for the network itself


def run(config: Baselines | Courses, *, seed: int, progress: Progress) -> CellResult:
    with reproducible(), jax.default_matmul_precision("highest"):
        if isinstance(config, Baselines):
            return _baselines(config, seed, progress)
        return _courses(config, seed, progress)


def _baselines(config: Baselines, seed: int, progress: Progress) -> CellResult:
    drawn = draw(config.problem, range(seed, seed + config.trials))
    runs = fit_expansion(
        config.problem.net,
        drawn.params,
        drawn.train,
        settings=list(SETTINGS.values()),
        rank=config.problem.rank,
        learning_rate=config.learning_rate,
        steps=config.steps,
        test=drawn.test,
        unlabelled=drawn.unlabelled,
        record_every=config.steps,
        precision="highest",
        progress=progress,
        key=jr.fold_in(jr.key(seed), 1),
    )
    trials = np.arange(seed, seed + config.trials)
    axes = np.meshgrid(trials, np.array(list(SETTINGS)), indexing="ij")
    table = {name: axis.ravel() for name, axis in zip(("seed", "setting"), axes, strict=True)}
    for name in ("train", "test", "r1", "r3"):
        table[name] = getattr(runs, name)[:, :, -1].ravel().astype(np.float64)
    return CellResult(table)


class Held(NamedTuple):
    """What is trained, with what the record needs beside it: not constants of the program."""

    params: Any
    start: Any
    x: Float[Array, "s k d"]  # training and test points


class Samples(NamedTuple):
    """Seeds stacked: where the Taylor models are expanded, and what is trained on."""

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
    """The mean squares of all seeds added up: their gradients do not touch each other."""

    model: Stacked

    def __call__(self, held: Held, batch: Samples) -> Float[Array, ""]:
        resid = self.model(batch.start, held.params, batch.x) - batch.y
        return jnp.sum(jnp.mean(resid**2, axis=1))


def _courses(config: Courses, seed: int, progress: Progress) -> CellResult:
    net, train, test = draw_courses(config, range(seed, seed + config.seeds))
    held = Held(train.start, train.start, jnp.concatenate([train.x, test.x], axis=1))
    y = np.concatenate([train.y, test.y], axis=1)
    network, parts = np.zeros(0), []
    planned = np.append(np.arange(0, config.steps, config.record_every), config.steps)
    for order in ORDERS:
        model = Stacked(net, order)
        history = fit(
            SumOverSeeds(model),
            held,
            train,
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
    return CellResult({name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def _at_steps(planned: Int[np.ndarray, " t"], history: History) -> Float[np.ndarray, "t s k"]:
    """The outputs at the planned steps; nan at those which a diverged training did not reach."""
    found = history.records["f"]
    f = np.full((len(planned), *found.shape[1:]), np.nan, found.dtype)
    kept = np.isin(history.steps, planned)
    f[np.searchsorted(planned, history.steps[kept])] = found[kept]
    return f


def _trained(config: Courses, held: Held) -> Held:
    """True at what descent moves: everything, or the hidden weights of the sigmoid network."""
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
    """A row for every recorded step and seed."""
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
    parts = [_draw_standard(config, net, seed) for seed in seeds]
    train, test = jax.tree.map(lambda *leaves: jnp.stack(leaves), *parts)
    return net, Samples(*train), Samples(*test)


def _draw_standard(config: Courses, net: BiasedTwoLayer, seed: int) -> tuple[tuple, tuple]:
    key_target, key_x, key_test, key_net = jr.split(jr.fold_in(jr.key(53), seed), 4)
    d = config.inputs
    target, start = dense_target(d, key=key_target), standard_init(net, bias_std=0.5, key=key_net)

    def samples(n: int, key: PRNGKeyArray) -> tuple:
        x = data.sphere(n, d, radius=math.sqrt(d), key=key)
        return start, x, jnp.asarray(target(x))

    return samples(config.n, key_x), samples(config.n_test, key_test)
