# SPDX-License-Identifier: Apache-2.0
"""The settings of Figure 1 and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.arora2019.figures.problems import DataSets, Network, Problem

NAME, VERSION = "arora2019/figure1", 1
LABELS = ("true", "random", "worst")
UNIT_WORST = "worst (norm one)"  # as the paper has them, beside labels of norm sqrt(n)


@dataclass(frozen=True)
class Spectrum:
    """A cell: the spectrum in a right panel."""

    problem: Problem


@dataclass(frozen=True)
class Training:
    """A cell: one curve in a left panel."""

    problem: Problem
    labels: str
    network: Network


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    datasets: DataSets
    n: int
    network: Network
    off_prediction: tuple[str, ...] = ()  # data sets recorded as leaving the lazy regime
    worst_of_norm_one: bool = False  # or else all labels have norm sqrt(n)

    @property
    def labels(self) -> tuple[str, ...]:
        """The label sets that are trained, in the order of `LABELS`."""
        return (*LABELS[:2], UNIT_WORST if self.worst_of_norm_one else LABELS[2])

    def problems(self) -> list[Problem]:
        return self.datasets.problems(self.n)


def cells(config: Config) -> list[Cell]:
    named = {}
    for problem in config.problems():
        named[Spectrum(problem)] = f"{problem.dataset}: spectrum"
        for labels in config.labels:
            training = Training(problem, labels, config.network)
            named[training] = f"{problem.dataset}: training, {labels} labels"
    return [Cell(NAME, VERSION, one, label=label) for one, label in named.items()]
