# SPDX-License-Identifier: Apache-2.0
"""The settings of the experiment on Theorem 1 and its cell."""

from dataclasses import dataclass

from unlazy.experiments import Cell
from unlazy.papers.nichani2022.figures.trials import Problem

NAME, VERSION = "nichani2022/theorem1", 1


@dataclass(frozen=True)
class Descents:
    """A cell: the network with and without penalties, on some trials. Its seed is the first one."""

    problem: Problem
    accuracy: float = 0.05  # epsilon, of the strengths of the theory
    trials: int = 5
    learning_rate: float = 5.0
    steps: int = 2000
    noise: float = 0.01
    record_every: int = 100


@dataclass(frozen=True)
class Config:
    """The whole experiment."""

    descents: Descents
    refuted: tuple[str, ...] = ()  # claims recorded as refuted at this preset


def cells(config: Config) -> list[Cell]:
    return [Cell(NAME, VERSION, config.descents, label=f"{config.descents.trials} trials")]
