# SPDX-License-Identifier: Apache-2.0
"""What Figure 1 is made of, and the cells that this gives."""

from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.arora2019.figures.problems import DataSets, Network, Problem

NAME, VERSION = "arora2019/figure1", 1
LABELS = ("true", "random", "worst")


@dataclass(frozen=True)
class Spectrum:
    """The cell of a right panel."""

    problem: Problem


@dataclass(frozen=True)
class Training:
    """The cell of one curve in a left panel."""

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

    def problems(self) -> list[Problem]:
        return self.datasets.problems(self.n)


def cells(config: Config) -> list[Cell]:
    listed = []
    for problem in config.problems():
        listed.append(_cell(Spectrum(problem), f"{problem.dataset}: spectrum"))
        for labels in LABELS:
            training = Training(problem, labels, config.network)
            listed.append(_cell(training, f"{problem.dataset}: training, {labels} labels"))
    return listed


def _cell(config: Spectrum | Training, label: str) -> Cell:
    return Cell(experiment=NAME, version=VERSION, config=config, seed=0, label=label)


def notes(config: Config) -> list[str]:
    return config.datasets.notes()
