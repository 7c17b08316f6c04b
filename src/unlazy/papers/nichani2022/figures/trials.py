# SPDX-License-Identifier: Apache-2.0
"""What the figures on f_L + f_Q share: their problem, their trials, and records to compare with."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy import data
from unlazy.activations import activation
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.nichani2022.expansion_training import (
    ExpansionRuns,
    ExpansionSetting,
    TrialData,
    fit_expansion,
)

TOLERANCE = 4.0  # standard errors between a mean of ours and a recorded one


@dataclass(frozen=True)
class Problem:
    """x_1 - 1 + (beta.x)^2 on the sphere of radius sqrt(d), and a sigmoid network of unit rows."""

    inputs: int
    n: int
    width: int
    shift: float = 1.5
    n_test: int = 2000
    n_unlabelled: int = 0

    @property
    def rank(self) -> int:
        """n_1, the number of spherical harmonics of degree at most one."""
        return self.inputs + 1

    @property
    def net(self) -> TwoLayer:
        return TwoLayer(
            self.inputs, self.width, activation("sigmoid", shift=self.shift), init="sphere"
        )


class Drawn(NamedTuple):
    """Several trials, stacked."""

    params: TwoLayerParams
    train: TrialData
    test: TrialData
    unlabelled: Float[Array, "s u d"] | None


def draw(problem: Problem, seeds: range) -> Drawn:
    """One trial per seed, each with its own direction beta, samples and network."""
    drawn = [_one(problem, seed) for seed in seeds]
    params, train, test, unlabelled = jax.tree.map(lambda *leaves: jnp.stack(leaves), *drawn)
    return Drawn(params, TrialData(*train), TrialData(*test), unlabelled)


def _one(problem: Problem, seed: int) -> tuple:
    key_beta, key_x, key_test, key_net, key_more = jr.split(jr.fold_in(jr.key(2022), seed), 5)
    d, many = problem.inputs, problem.n_unlabelled
    target = data.target("linear-plus-square", beta=jr.normal(key_beta, (d,)))

    def points(n: int, key: PRNGKeyArray) -> Float[Array, "n d"]:
        return data.sphere(n, d, radius=math.sqrt(d), key=key)

    x, new = points(problem.n, key_x), points(problem.n_test, key_test)
    params = problem.net.init(key=key_net)
    return params, (x, target(x)), (new, target(new)), points(many, key_more) if many else None


def train(
    problem: Problem, seeds: range, settings: Sequence[ExpansionSetting], **options: Any
) -> ExpansionRuns:
    """All trials and settings by `fit_expansion`, which takes the options."""
    drawn = draw(problem, seeds)
    return fit_expansion(
        problem.net,
        drawn.params,
        drawn.train,
        settings=settings,
        rank=problem.rank,
        test=drawn.test,
        unlabelled=drawn.unlabelled,
        precision="highest",
        key=jr.fold_in(jr.key(seeds.start), 1),
        **options,
    )


def table(
    axes: dict[str, np.ndarray], columns: dict[str, np.ndarray]
) -> dict[str, Float[np.ndarray, " r"]]:
    """One row per point of the grid of these axes."""
    grid = np.meshgrid(*axes.values(), indexing="ij")
    rows = {name: axis.ravel() for name, axis in zip(axes, grid, strict=True)}
    return rows | {name: values.ravel().astype(np.float64) for name, values in columns.items()}


def spread(values: Float[np.ndarray, "s *k"]) -> Float[np.ndarray, "*k"]:
    """The standard deviation over the trials; zero of one trial."""
    return np.asarray(values.std(axis=0, ddof=1)) if len(values) > 1 else np.zeros(values.shape[1:])


def distance(ours: Float[np.ndarray, "s *k"], mean, deviation, count: int) -> Any:
    """Standard errors between our mean over the trials and a recorded one over `count` seeds."""
    # Both spreads are estimates from few seeds: their root mean square is less of one.
    pooled = np.sqrt((deviation**2 + spread(ours) ** 2) / 2)
    return np.abs(ours.mean(axis=0) - mean) / (pooled * math.sqrt(1 / len(ours) + 1 / count))
