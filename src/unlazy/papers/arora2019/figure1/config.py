# SPDX-License-Identifier: Apache-2.0
"""What Figure 1 is made of: its problems, its network, and the cells that they give."""

from dataclasses import dataclass

from unlazy import data
from unlazy.experiments import Cell

NAME, VERSION = "arora2019/figure1", 1
LABELS = ("true", "random", "worst")
CENTERED = ("cifar10",)  # raw pixels would put the paper's step of 1e-3 above 2/lambda_max


@dataclass(frozen=True)
class Problem:
    """The first two classes of a data set, `n` samples, unit norm."""

    dataset: str
    n: int
    fingerprint: str  # of the files, since copies of a data set differ


@dataclass(frozen=True)
class Network:
    """The network and how it is trained."""

    width: int
    init: str
    init_scale: float
    learning_rate: float | None  # None: 1/lambda_max
    steps: int


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

    datasets: tuple[str, ...]
    n: int
    network: Network
    fallback: str | None = None  # for data sets that are not on this machine
    off_prediction: tuple[str, ...] = ()  # data sets recorded as leaving the lazy regime

    def problems(self) -> list[Problem]:
        return [Problem(name, self.n, data.fingerprint(name)) for name in self.found()]

    def found(self) -> tuple[str, ...]:
        if self.fallback is None:
            return self.datasets
        return tuple(filter(data.available, self.datasets)) or (self.fallback,)


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
    missing = [name for name in config.datasets if name not in config.found()]
    if not missing:
        return []
    used = " and ".join(config.found())
    return [
        f"{' and '.join(missing)} not found on this machine: using {used}. Point UNLAZY_DATA at a "
        "folder that holds the data, or run the paper preset, which downloads it."
    ]
