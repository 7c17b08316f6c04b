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
    def formula(self) -> str:
        return r"$x_1 - 1 + (\beta^\top x)^2$"

    @property
    def rank(self) -> int:
        """n_1, the number of spherical harmonics of degree at most one."""
        return self.inputs + 1

    @property
    def best_linear(self) -> float:
        """The mean square that the best affine function leaves of the target."""
        return 2 * (self.inputs - 1) / (self.inputs + 2)

    @property
    def net(self) -> TwoLayer:
        return TwoLayer(
            self.inputs, self.width, activation("sigmoid", shift=self.shift), init="sphere"
        )

    def points(self, n: int, *, key: PRNGKeyArray) -> Float[Array, "n d"]:
        return data.sphere(n, self.inputs, radius=math.sqrt(self.inputs), key=key)

    def target(self, beta: Float[Array, " d"]) -> data.Target:
        return data.target("linear-plus-square", beta=beta)


@dataclass(frozen=True)
class AuthorsProblem(Problem):
    """((beta.x)^2 - 1 + beta.x) / sqrt(3) on Gaussian inputs, of variance one: the authors' code.

    Source: the published code of arXiv:2206.03688, github.com/eshnich/escape_NTK.
    """

    shift: float = 1.0
    n_test: int = 10_000

    @property
    def formula(self) -> str:
        return r"$((\beta^\top x)^2 - 1 + \beta^\top x)/\sqrt{3}$"

    @property
    def rank(self) -> int:
        """d, one less than there are polynomials of degree at most one."""
        return self.inputs

    @property
    def best_linear(self) -> float:
        return 2 / 3

    def points(self, n: int, *, key: PRNGKeyArray) -> Float[Array, "n d"]:
        return jr.normal(key, (n, self.inputs))

    def target(self, beta: Float[Array, " d"]) -> data.Target:
        beta = beta / jnp.linalg.norm(beta)
        return data.target(
            "low-degree-plus-sparse",
            constant=-1 / math.sqrt(3),
            linear=beta / math.sqrt(3),
            alphas=[1 / math.sqrt(3)],
            betas=beta[None],
            powers=[2],
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
    many, target = problem.n_unlabelled, problem.target(jr.normal(key_beta, (problem.inputs,)))
    x, new = problem.points(problem.n, key=key_x), problem.points(problem.n_test, key=key_test)
    more = problem.points(many, key=key_more) if many else None
    return problem.net.init(key=key_net), (x, target(x)), (new, target(new)), more


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


def table(axes: dict[str, np.ndarray], columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
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
