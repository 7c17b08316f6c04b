# SPDX-License-Identifier: Apache-2.0
"""What the figures on f_L + f_Q share: data, networks and training sets of several trials."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from unlazy import data
from unlazy.activations import activation
from unlazy.nets import TwoLayer, TwoLayerParams
from unlazy.papers.nichani2022.expansion_training import TrialData


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
    """One trial a seed: its own direction beta, its own samples and its own network."""
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
