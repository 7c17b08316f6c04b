# SPDX-License-Identifier: Apache-2.0
"""The data and the networks of Figures 2 and 3, each from a seed."""

from dataclasses import dataclass
from typing import Any

from unlazy import data
from unlazy.core.machine import on_host
from unlazy.data import ComposedParities
from unlazy.nets import BiasedTwoLayer, ResNet3, ThreeLayer
from unlazy.papers.shared.grids.learner import Keys, Split, draw_split, initial, keys_of
from unlazy.papers.shared.settings import reproducible

Network = BiasedTwoLayer | ThreeLayer | ResNet3


@dataclass(frozen=True)
class Task:
    """The benchmark, and how many of its samples to train on, to choose by and to measure on."""

    n: int
    inputs: int = 30
    alpha: float = 0.3
    n_validation: int = 1000
    n_test: int = 10_000

    def target(self, beta: float = 1.0) -> ComposedParities:
        r"""$y = \beta F + \alpha G(F)$ on $\{\pm 1\}^d$, of d/2 outputs."""
        found = data.target("parities-of-parities", inputs=self.inputs, alpha=self.alpha, beta=beta)
        assert isinstance(found, ComposedParities)
        return found


def keys(seed: int) -> Keys:
    """The keys of a seed in this paper."""
    return keys_of(1905, seed)


def draw(task: Task, *, seed: int, beta: float = 1.0) -> Split:
    """The sets of a seed, in float32; the smaller of two training sets is part of the larger.

    Source: RN-60, arXiv:1905.10337 section 8. The validation set is ours, of fresh samples.
    """
    with reproducible(), on_host():
        sizes = (task.n, task.n_validation, task.n_test)
        return draw_split(task.target(beta), data.cube, task.inputs, sizes, keys(seed))


def network(layers: str, task: Task, width: int, init: str = "experiment") -> Network:
    """The network "2layer", "3layer" or "3resnet", every entry of it from N(0, 1/m).

    With `init` "fan-in" the variance is 1 over the inputs of the layer, as in footnote 15.

    Source: RN-6 and RN-7, arXiv:1905.10337 section 8.
    """
    kinds = {"3resnet": ResNet3, "3layer": ThreeLayer, "2layer": BiasedTwoLayer}
    return kinds[layers](task.inputs, width, task.target().outputs, init=init)


def start(net: Network, seed: int) -> Any:
    """The initial parameters of a seed."""
    return initial(net, keys(seed).init)
