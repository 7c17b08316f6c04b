# SPDX-License-Identifier: Apache-2.0
"""The settings of the figure of Appendix G and its cells."""

from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.nichani2022.expansion_training import ExpansionSetting
from unlazy.papers.nichani2022.figures.appendix_g.authors.config import (
    AuthorsConfig,
    authors_cells,
)
from unlazy.papers.nichani2022.figures.trials import Problem

NAME, VERSION = "nichani2022/appendix_g", 1

_STRENGTH, _START = 10.0, 1e-4
SETTINGS = {
    "neither": ExpansionSetting(start=_START),
    "R3": ExpansionSetting(lam3=_STRENGTH, start=_START),
    "R1": ExpansionSetting(lam1=_STRENGTH, start=_START),
    "R1 and R3": ExpansionSetting(lam1=_STRENGTH, lam3=_STRENGTH, start=_START),
    "f_L alone": ExpansionSetting(quadratic=False, start=_START),
    "f_Q alone": ExpansionSetting(linear=False, start=1e-3),
}


@dataclass(frozen=True)
class Baselines:
    """A cell: f_L + f_Q under R1, R3, both or neither, and each term alone, as one program."""

    problem: Problem
    trials: int = 3
    learning_rate: float = 10.0
    steps: int = 600


@dataclass(frozen=True)
class Courses:
    """A cell: a network and its Taylor models of orders 1 and 2, trained from the same start.

    "tanh" is a standard network with biases, all of it trained, on the target of Figure 2;
    "sigmoid" the network of Figure 1, hidden weights trained, on the target of that figure.
    """

    network: str
    inputs: int
    n: int
    width: int
    learning_rate: float
    steps: int
    record_every: int
    seeds: int = 2
    n_test: int = 1000


@dataclass(frozen=True)
class Config:
    """The whole figure."""

    baselines: Baselines
    courses: tuple[Courses, ...]  # of standard networks, by width
    counter_example: Courses
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def cells(config: Config | AuthorsConfig) -> list[Cell]:
    if isinstance(config, AuthorsConfig):
        return authors_cells(config, NAME, VERSION)
    first = f"penalties and single terms, {config.baselines.trials} trials"
    listed = [Cell(NAME, VERSION, config.baselines, label=first)]
    for one in (*config.courses, config.counter_example):
        label = f"Taylor models, {one.network}, m = {one.width}"
        listed.append(Cell(NAME, VERSION, one, label=label))
    return listed
