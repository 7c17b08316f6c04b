# SPDX-License-Identifier: Apache-2.0
"""The settings of Figure 2 and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.arora2019.figures.problems import DataSets, Network, Problem

NAME, VERSION = "arora2019/figure2", 1
FRACTIONS = (0.0, 0.25, 0.5, 0.75, 1.0)


@dataclass(frozen=True)
class InfiniteWidth:
    """A cell: the measure and the kernel's test errors, for all fractions."""

    problem: Problem
    n_test: int
    fractions: tuple[float, ...]


@dataclass(frozen=True)
class Trained:
    """A cell: one network, for one fraction."""

    problem: Problem
    n_test: int
    fraction: float
    network: Network


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    datasets: DataSets
    n: int
    n_test: int
    network: Network
    fallback_sizes: tuple[int, int] = (250, 70)  # n and n_test of a smaller data set

    def problems(self) -> list[Problem]:
        uses_fallback = self.datasets.found() == (self.datasets.fallback,)
        return self.datasets.problems(self.fallback_sizes[0] if uses_fallback else self.n)

    def infinite(self, problem: Problem) -> InfiniteWidth:
        return InfiniteWidth(problem, self._n_test(problem), FRACTIONS)

    def trained(self, problem: Problem) -> list[Trained]:
        n_test = self._n_test(problem)
        return [Trained(problem, n_test, share, self.network) for share in FRACTIONS]

    def _n_test(self, problem: Problem) -> int:
        is_fallback = problem.dataset == self.datasets.fallback
        return self.fallback_sizes[1] if is_fallback else self.n_test


def cells(config: Config) -> list[Cell]:
    named = {}
    for problem in config.problems():
        named[config.infinite(problem)] = f"{problem.dataset}: infinite width"
        for trained in config.trained(problem):
            share = f"{trained.fraction:.0%} random labels"
            named[trained] = f"{problem.dataset}: training, {share}"
    return [Cell(NAME, VERSION, one, label=label) for one, label in named.items()]
